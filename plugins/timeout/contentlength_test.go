package timeout_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// net/http refuses the whole of a write that is too long: the writes before it must not be
// refused with it.
func TestAWriteAboveTheContentLengthIsRefusedAlone(t *testing.T) {
	t.Parallel()
	for _, length := range []string{"3", "5"} {
		for _, flush := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
				httpClient, _ := serve(t, plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Length", length)
					n, err := io.WriteString(w, "abc")
					require.NoError(t, err)
					require.Equal(t, 3, n)
					if flush {
						require.NoError(t, http.NewResponseController(w).Flush())
					}
					for _, more := range []string{"def", "g"} { // after the first, net/http accepts no more
						n, err = io.WriteString(w, more)
						require.ErrorIs(t, err, http.ErrContentLength)
						require.Zero(t, n)
					}
				})))
				resp, err := get(t, t.Context(), httpClient.Transport)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.Equal(t, "abc", string(body))
				if length == "3" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
				require.NoError(t, resp.Body.Close())
			})
		}
	}
}
