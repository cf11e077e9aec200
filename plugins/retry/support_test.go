package retry_test

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/retry"
)

// A plugin is a Client and its policy.
type plugin struct {
	*retry.Client

	policy *retry.Policy
}

// quick is a plugin without waits, unless the Config has a Backoff.
func quick(c retry.Config, o retry.ClientOptions) plugin {
	if c.Backoff == nil {
		c.Backoff = backoff.Constant{}
	}
	p := core.Must(retry.New(c))
	return plugin{retry.NewClient(p, o), p}
}

// status answers with a status, a body of that size and header lines "Name: value".
func status(code, size int, header ...string) resiltest.Reply {
	r := resiltest.Reply{Status: code, Header: http.Header{}, Body: strings.Repeat("x", size)}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// do sends a request through the plugin, closes what it gets, and sees that the request stays what it was.
func do(t *testing.T, p plugin, base http.RoundTripper, req *http.Request) (*http.Response, error) {
	t.Helper()
	before, header, url := *req, req.Header.Clone(), *req.URL
	resp, err := p.Transport(base).RoundTrip(req)
	after := *req
	require.Equal(t, before.GetBody == nil, after.GetBody == nil)
	before.GetBody, after.GetBody = nil, nil // functions cannot be compared
	require.True(t, reflect.DeepEqual(before, after), "the caller's request was changed")
	require.Equal(t, header, req.Header)
	require.Equal(t, url, *req.URL)
	if resp != nil {
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Same(t, req, resp.Request)
	}
	return resp, err
}

func get(t *testing.T) *http.Request {
	t.Helper()
	return request(t.Context(), http.MethodGet, nil)
}

func request(ctx context.Context, method string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, method, "http://example.test/x?y=1", body))
}

func always(context.Context, *http.Response, error) (bool, error) { return true, nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// bound is a time limit of an attempt, as a timeout plugin sets it.
type bound struct{}

func (bound) Error() string { return "timeout: it is over" }
func (bound) Timeout() bool { return true }
