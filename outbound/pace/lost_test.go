package pace_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/pace"
)

// TestARequestThatIsSentAgainAfterALostConnectionTakesAnotherPermit: net/http repeats a request if the
// connection, which it used before, ends without a reply.
func TestARequestThatIsSentAgainAfterALostConnectionTakesAnotherPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v vendor
		var calls atomic.Int64
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v.call(1)
			_, _ = io.Copy(io.Discard, r.Body) // what cannot be written is another error
			if calls.Add(1)%2 == 0 {
				conn, _, err := http.NewResponseController(w).Hijack()
				require.NoError(t, err)
				_ = conn.Close()
			}
		}))
		p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
		c := &http.Client{Transport: p.Transport(srv.Transport())}
		for range 5 {
			body := resiltest.NewBody("order")
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, body))
			req.Header.Set("Idempotency-Key", "1")
			req.GetBody = func() (io.ReadCloser, error) { return resiltest.NewBody("order"), nil }
			resp, err := c.Do(req)
			require.NoError(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 1, body.Closes())
		}
		require.EqualValues(t, 9, v.total())
		require.EqualValues(t, 1, v.most(time.Second))
		require.EqualValues(t, 9, p.Stats().Permits)
		require.Equal(t, 8*1050*time.Millisecond, time.Since(start))
	})
}
