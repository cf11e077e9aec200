//nolint:thelper // the functions given to everywhere are the tests
package retry_test

import (
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestARedirectThatIsNotFollowedComesBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		for _, code := range []int{301, 302, 303, 307, 308} {
			s := resiltest.NewScript(status(503, 10), status(code, 5, "Location: /next", "Retry-After: 5"))
			srv := resiltest.Serve(t, listen(strconv.Itoa(code)+".test"), s)
			c := &http.Client{
				Transport:     quick(retry.Config{}).Transport(resiltest.Count(t, srv.Transport())),
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			resp, err := c.Get(srv.URL)
			require.NoError(t, err)
			require.Equal(t, code, resp.StatusCode)
			require.Equal(t, "/next", resp.Header.Get("Location"))
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 2, s.Calls(), "503, which is repeated, and the redirect, which is not")
		}
	})
}

// Each hop is a call of its own: with its own attempts, and its own body.
func TestARedirectReplaysTheBody(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		for _, c := range []struct {
			code   int
			method string // of what follows a POST
		}{{301, "GET"}, {302, "GET"}, {303, "GET"}, {307, "POST"}, {308, "POST"}} {
			s := resiltest.NewScript(status(503, 10), status(c.code, 10, "Location: /next"), status(502, 10), status(200, 2))
			srv := resiltest.Serve(t, listen(strconv.Itoa(c.code)+".test"), s)
			rt := quick(retry.Config{}).Transport(resiltest.Count(t, srv.Transport()))
			req := to(t.Context(), http.MethodPost, srv.URL+"/first", strings.NewReader("order"))
			req.Header.Set("Idempotency-Key", "17")
			resp, err := (&http.Client{Transport: rt}).Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, 200, resp.StatusCode)
			var got []string
			for _, a := range s.Attempts() {
				got = append(got, a.Request.Method+" "+a.Request.URL.Path+" "+a.Body)
				require.Equal(t, "17", a.Request.Header.Get("Idempotency-Key"))
			}
			next := c.method + " /next "
			if c.method == http.MethodPost {
				next += "order"
			}
			require.Equal(t, []string{"POST /first order", "POST /first order", next, next}, got)
		}
	})
}

func TestWithoutGetBodyThereIsNothingToReplay(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		s := resiltest.NewScript(status(307, 10, "Location: /next"), status(200, 2))
		srv := resiltest.Serve(t, listen("a.test"), s)
		b := resiltest.NewBody("a stream")
		c := &http.Client{Transport: quick(retry.Config{MaxBuffer: 100}).Transport(resiltest.Count(t, srv.Transport()))}
		resp, err := c.Do(to(t.Context(), http.MethodPut, srv.URL, b))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 307, resp.StatusCode, "as net/http does it")
		require.Equal(t, 1, s.Calls())
		require.Equal(t, 1, b.Closes())
	})
}

func TestSecretsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		other := resiltest.NewScript(status(503, 0), status(200, 0))
		elsewhere := resiltest.Serve(t, listen("elsewhere.test"), other)
		// 127.0.0.1 with another port is the same host for net/http, and localhost is not
		target := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
		own := resiltest.NewScript(status(503, 0), status(307, 0, "Location: /again"), status(503, 0), status(307, 0, "Location: "+target))
		srv := resiltest.Serve(t, listen("own.test"), own)
		c := &http.Client{Transport: quick(retry.Config{}).Transport(srv.Transport()), Jar: core.Must(cookiejar.New(nil))}
		req := to(t.Context(), http.MethodGet, srv.URL, nil)
		req.Header = http.Header{"Authorization": {"secret"}, "Cookie": {"session=1"}, "X-Plain": {"yes"}}
		resp, err := c.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []int{4, 2}, []int{own.Calls(), other.Calls()})
		for i, a := range append(own.Attempts(), other.Attempts()...) {
			want := []string{"secret", "session=1", "yes"}
			if i >= 4 {
				want = []string{"", "", "yes"}
			}
			h := a.Request.Header
			require.Equal(t, want, []string{h.Get("Authorization"), h.Get("Cookie"), h.Get("X-Plain")}, "attempt %d", i)
		}
	})
}
