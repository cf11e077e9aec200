package timeout_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// A copy of it is sent, also if there is no limit.
func TestTheRequestOfAResponseIsThatOfTheCaller(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"total", "attempt"} {
		for _, limit := range []time.Duration{time.Minute, -1} {
			rt := newKind(t, kind, timeout.Config{Limit: limit}).Transport(stub(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: req}, nil
			}))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test", resiltest.NewBody("x"))
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Same(t, req, resp.Request, "%s, %v", kind, limit)
		}
	}
}
