package timeout_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// TestTheRequestAfterAnUploadThatTimedOutIsNotCanceled: the deadline that ends the reads of an upload
// also ends the contexts of further requests of an HTTP/1 connection.
func TestTheRequestAfterAnUploadThatTimedOutIsNotCanceled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/slow" {
				time.Sleep(2 * time.Second)
				return
			}
			time.Sleep(time.Millisecond)
			if r.Context().Err() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})))
		transport := srv.Transport()
		for _, c := range []struct {
			path   string
			status int
		}{{"/slow", http.StatusServiceUnavailable}, {"/quick", http.StatusOK}, {"/slow", http.StatusServiceUnavailable}, {"/quick", http.StatusOK}} {
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+c.path, io.MultiReader(strings.NewReader("upload"))))
			resp := core.Must(transport.RoundTrip(req))
			_, err := io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.status, resp.StatusCode, c.path)
			time.Sleep(time.Minute)
		}
	})
}
