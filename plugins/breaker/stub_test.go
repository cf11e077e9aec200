package breaker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
)

const host = "api.example.com"

var errDown = errors.New("connection refused")

// answers is a transport that always answers so.
func answers(status int, retryAfter string) *resiltest.Script {
	r := resiltest.Reply{Status: status}
	if retryAfter != "" {
		r.Header = http.Header{"Retry-After": {retryAfter}}
	}
	return resiltest.NewScript(r)
}

// does is a transport that does it, and leaves the request's body alone.
func does(f func(*http.Request) (*http.Response, error)) *resiltest.Script {
	return resiltest.NewScript(resiltest.Reply{Unread: true, Do: f})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func respond(req *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
}

func newClient(t *testing.T, cfg breaker.ClientConfig) *breaker.Client {
	t.Helper()
	c, err := breaker.NewClient(cfg)
	require.NoError(t, err)
	return c
}

func get(ctx context.Context, rt http.RoundTripper, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return rt.RoundTrip(req)
}

// send sends n requests and requires that each gets the status.
func send(t *testing.T, rt http.RoundTripper, n, status int) {
	t.Helper()
	for range n {
		resp, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
	}
}

// refused requires that a request is rejected, and returns how.
func refused(t *testing.T, rt http.RoundTripper) *breaker.OpenError {
	t.Helper()
	resp, err := get(t.Context(), rt, "https://"+host)
	require.Nil(t, resp)
	open, ok := errors.AsType[*breaker.OpenError](err)
	require.True(t, ok, "%v", err)
	return open
}

func minute() backoff.Strategy { return backoff.Constant{Delay: time.Minute} }

// recorded returns a registry that calls f for each call that a breaker counts.
func recorded(f func(outcome core.Outcome)) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) {
		if e.Text == "circuit breaker recorded a call" {
			for o := core.Ignored; o <= core.Failure; o++ {
				if o.String() == e.Attr("outcome").String() {
					f(o)
				}
			}
		}
	})
}
