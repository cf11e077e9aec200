package standard_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/standard"
)

type served func(*http.Request) (*http.Response, error)

func (f served) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestALimitOfOneResourceHoldsNoOtherRequestToTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := served(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req, Header: http.Header{
				"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"3600"}, "X-Ratelimit-Resource": {"search"},
			}}, nil
		})
		c, err := standard.New(standard.Config{HTTP: http.Client{Transport: base}})
		require.NoError(t, err)
		for _, path := range []string{"search", "users", "search"} {
			resp, err := c.Get("http://api.test/" + path)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
	})
}
