package timeout_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

func TestABodyIsClosedOnceThoughTheTransportPanics(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		for _, limit := range []time.Duration{time.Minute, -1} {
			for name, closes := range map[string]bool{"closed before the panic": true, "not closed": false} {
				body := resiltest.NewBody("x")
				rt := newKind(t, kind, timeout.Config{Limit: limit}).Transport(stub(func(req *http.Request) (*http.Response, error) {
					if closes {
						_ = req.Body.Close()
					}
					panic("transport")
				}))
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test", body)
				require.NoError(t, err)
				require.PanicsWithValue(t, "transport", func() { _, _ = rt.RoundTrip(req) }, name)
				require.Equal(t, 1, body.Closes(), name)
				require.Same(t, body, req.Body, "the request is never changed")
			}
		}
	}
}
