package retry_test

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// status answers with a status, a body of that size and header lines
// "Name: value".
func status(code, size int, header ...string) resiltest.Reply {
	r := resiltest.Reply{Status: code, Header: http.Header{}, Body: strings.Repeat("x", size)}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// do sends a request through the plugin, closes what it gets, and sees that the
// request stays what it was.
func do(t *testing.T, p *retry.Plugin, base http.RoundTripper, req *http.Request) (*http.Response, error) {
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

// quick is a plugin without waits.
func quick(c retry.Config) *retry.Plugin {
	if c.Backoff == nil && c.Delay == nil {
		c.Backoff = backoff.Constant{}
	}
	return core.Must(retry.New(c))
}

// doubling are the waits of Kresil: half a second, doubled, no jitter.
func doubling() backoff.Strategy {
	return backoff.Exponential{Delay: 500 * time.Millisecond, Max: time.Minute, Jitter: -1}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// suppressed is one retry that was not made.
func suppressed(why coreretry.Verdict) (s [coreretry.OverBudget + 1]uint64) {
	s[why] = 1
	return s
}
