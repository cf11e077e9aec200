package breaker_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/breaker"
)

// The origin gives up an upload that trickles. Its answer is one of a server that works; a
// lost connection could also be that of a server that does not.
func TestAnOriginThatGivesUpASlowUpload(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		want   breaker.Stats
	}{
		"408":               {http.StatusRequestTimeout, breaker.Stats{Successes: 1}},
		"413":               {http.StatusRequestEntityTooLarge, breaker.Stats{Successes: 1}},
		"a lost connection": {0, breaker.Stats{Failures: 1}},
	} {
		handler := func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, 5))
			c, _, err := http.NewResponseController(w).Hijack() // the server would read on before it answers
			switch {
			case err == nil && tt.status != 0:
				_, _ = fmt.Fprintf(c, "HTTP/1.1 %d x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", tt.status)
				_ = c.Close()
			case err == nil:
				_ = c.Close()
			case tt.status != 0: // HTTP/2
				w.WriteHeader(tt.status)
			default:
				panic(http.ErrAbortHandler)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			for version, base := range versions(t, handler) {
				breakers := newClient(t, breaker.ClientConfig{})
				rt := arrangements(breakers, base, time.Minute)["breaker, timeout"]
				resp, err := rt.RoundTrip(upload(t.Context(), trickle(100*time.Millisecond), 0))
				if tt.status != 0 {
					require.NoError(t, err, "%s: %s", version, name)
					require.Equal(t, tt.status, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
				} else {
					require.Error(t, err, "%s: %s", version, name)
				}
				stats := breakers.Stats()
				require.Equal(t, tt.want, breaker.Stats{Successes: stats.Successes, Failures: stats.Failures, Ignored: stats.Ignored}, "%s: %s: %v", version, name, err)
			}
			time.Sleep(time.Hour) // what the servers do last
		})
	}
}
