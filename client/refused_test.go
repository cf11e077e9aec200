package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

// outcome is how err is judged after req, which has no body to watch.
func outcome(t *testing.T, req *http.Request, err error) core.Outcome {
	t.Helper()
	explained := client.Explain(req, err)
	require.ErrorIs(t, explained, err)
	return client.Classify(t.Context(), nil, explained)
}

func TestARequestThatNetHTTPRefusesIsTheFaultOfTheCaller(t *testing.T) {
	t.Parallel()
	one := httptest.NewServer(http.NotFoundHandler())
	defer one.Close()
	two := httptest.NewUnstartedServer(http.NotFoundHandler())
	two.EnableHTTP2 = true
	two.StartTLS()
	defer two.Close()
	for name, c := range map[string]struct {
		change func(*http.Request)
		on1    bool // HTTP/1 refuses it
		on2    bool
	}{
		"nil URL":           {func(r *http.Request) { r.URL = nil }, true, true},
		"nil Header":        {func(r *http.Request) { r.Header = nil }, true, true},
		"no Host":           {func(r *http.Request) { r.URL.Host = "" }, true, true},
		"scheme":            {func(r *http.Request) { r.URL.Scheme = "gopher" }, true, true},
		"query":             {func(r *http.Request) { r.URL.RawQuery = "a=b\nc" }, true, false},
		"opaque":            {func(r *http.Request) { r.URL.Opaque = "/a\x7f" }, true, false},
		"opaque path":       {func(r *http.Request) { r.URL.Opaque = "a" }, false, true},
		"Host":              {func(r *http.Request) { r.Host = "a\nb" }, false, true}, // HTTP/1 sends none, except to a proxy
		"no body":           {func(r *http.Request) { r.ContentLength = 3 }, true, false},
		"method":            {func(r *http.Request) { r.Method = "a b" }, true, false}, // HTTP/2 sends it on a connection that it has
		"header":            {func(r *http.Request) { r.Header.Set("A", "a\nb") }, true, true},
		"trailer":           {func(r *http.Request) { r.Trailer = http.Header{"a b": nil} }, true, true},
		"Upgrade":           {func(r *http.Request) { r.Header.Set("Upgrade", "h2c") }, false, true},
		"Connection":        {func(r *http.Request) { r.Header.Set("Connection", "x-foo") }, false, true},
		"Transfer-Encoding": {func(r *http.Request) { r.Header.Set("Transfer-Encoding", "gzip") }, false, true},
	} {
		for s, refuses := range map[*httptest.Server]bool{one: c.on1, two: c.on2} {
			if !refuses {
				continue
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			require.NoError(t, err)
			harmless := req.Clone(t.Context())
			c.change(req)
			_, err = s.Client().Transport.RoundTrip(req)
			require.Error(t, err, name)
			require.Equal(t, core.Ignored, outcome(t, req, err), "%s: %v", name, err)
			require.Equal(t, core.Ignored, outcome(t, harmless, err), "%s, changed by an inner RoundTripper: %v", name, err)
			err = &url.Error{Op: "Get", URL: "/", Err: err}
			for _, wrapped := range []error{fmt.Errorf("oauth: %w", err), fmt.Errorf("%w: %w", errDown, err)} {
				require.Equal(t, core.Ignored, outcome(t, harmless, wrapped), "%s: %v", name, wrapped)
			}
		}
	}
}

func TestARealErrorAfterARequestThatOnlyNetHTTPWouldRefuseIsAFailure(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]*http.Request{
		"nil Header":        {URL: &url.URL{Scheme: "http", Host: "example.test"}},
		"nil URL":           {Header: http.Header{}},
		"a unix socket":     {URL: &url.URL{Scheme: "http", Path: "/x"}, Header: http.Header{}},
		"a registered name": {URL: &url.URL{Scheme: "memory", Path: "/x"}, Header: http.Header{}},
		"an upgrade":        {URL: &url.URL{Scheme: "http", Host: "example.test"}, Header: http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}},
		"a query":           {URL: &url.URL{Scheme: "memory", RawQuery: "a\nb"}, Header: http.Header{}},
	} {
		require.Equal(t, core.Failure, outcome(t, req, errDown), name)
		require.Equal(t, core.Failure, outcome(t, req, errors.New("upstream: http2: invalid frame")), name)
	}
}
