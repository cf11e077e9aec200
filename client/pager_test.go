package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// each is a plugin of each kind and mode, and all of them together.
func each() map[string][]client.Plugin {
	total, attempt := timeout.NewClient(nil, timeout.ClientOptions{}), timeout.NewClient(nil, timeout.ClientOptions{PerAttempt: true})
	all := map[string][]client.Plugin{
		"none":              nil,
		"total":             {total},
		"attempt":           {attempt},
		"retry":             {retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), retry.ClientOptions{MaxBuffer: 100})},
		"retry, any method": {retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), retry.ClientOptions{MaxBuffer: 100, Repeatable: func(*http.Request) bool { return true }, CheckRetry: retry.CheckRetry})},
		"breaker":           {breaker.NewClient(nil, breaker.ClientOptions{})},
		"limiter":           {core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))},
		"pacer":             {pacer()},
		"dispatcher":        {dispatched{core.Must(dispatch.New(dispatch.Config[string, struct{}]{}))}},
	}
	all["all"] = []client.Plugin{
		total,
		retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), retry.ClientOptions{MaxBuffer: 100}),
		core.Must(ratelimit.NewClient(ratelimit.ClientConfig{})),
		pacer(),
		breaker.NewClient(nil, breaker.ClientOptions{}),
		attempt,
	}
	return all
}

func pacer() client.Plugin {
	return core.Must(pace.New(pace.Config{Rates: []pace.Rate{{Calls: 100_000, Per: time.Second}}}))
}

// A dispatched is a dispatcher as a plugin.
type dispatched struct {
	*dispatch.Dispatcher[string, struct{}]
}

func (dispatched) Phase() client.Phase { return client.Attempt }

func (d dispatched) Transport(next http.RoundTripper) http.RoundTripper {
	return dispatch.RoundTripper(d.Dispatcher, next, nil)
}

func (d dispatched) Close() error { return d.Dispatcher.Close(context.Background()) }

type markedKey struct{}

// tagging copies the request, as a transport that signs or traces does.
type tagging struct{ next http.RoundTripper }

func (t tagging) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(context.WithValue(req.Context(), markedKey{}, "span"))
	req.Header.Set("Authorization", "signed")
	return t.next.RoundTrip(req)
}

func TestThePagerOfAResponseGoesOnWithItsRequest(t *testing.T) {
	t.Parallel()
	for name, plugins := range each() {
		for _, inner := range []string{"plain", "a transport that copies the request"} {
			for _, ending := range []string{"closed", "read", "closed twice"} {
				var calls, tries int
				var base http.RoundTripper = roundTrip(func(req *http.Request) (*http.Response, error) {
					tries++
					if err := req.Context().Err(); err != nil {
						return nil, err
					}
					if req.Body != nil {
						_, _ = io.Copy(io.Discard, req.Body)
						_ = req.Body.Close()
					}
					calls++
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req, Body: resiltest.NewBody("page " + strconv.Itoa(calls))}, nil
				})
				if inner != "plain" {
					base = tagging{base}
				}
				rt := client.New(base, plugins...)
				req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://example.test/", io.MultiReader(bytes.NewReader([]byte("query")))))
				for page := range 4 {
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err, "%s, %s, %s, page %d", name, inner, ending, page)
					if inner == "plain" {
						require.Same(t, req, resp.Request, "%s: as a plain transport", name)
					} else {
						require.Equal(t, "signed", resp.Request.Header.Get("Authorization"), name)
						require.Equal(t, "span", resp.Request.Context().Value(markedKey{}), name)
					}
					if ending == "read" {
						_, err = io.Copy(io.Discard, resp.Body)
						require.NoError(t, err)
					} else {
						require.NoError(t, resp.Body.Close())
					}
					if ending == "closed twice" {
						_ = resp.Body.Close()
					}
					require.NoError(t, resp.Request.Context().Err(), "%s, %s, %s", name, inner, ending)
					req = resp.Request.Clone(resp.Request.Context())
					req.Body = io.NopCloser(bytes.NewReader([]byte("query")))
				}
				require.Equal(t, 4, tries, name)
			}
		}
	}
}

func TestTheRequestOfAResponseEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	cause := errors.New("shutdown")
	for name, plugins := range each() {
		for _, copying := range []bool{false, true} {
			var base http.RoundTripper = resiltest.NewScript(resiltest.Reply{Body: "x"})
			if copying {
				base = tagging{base}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			resp, err := client.New(base, plugins...).RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			derived, stop := context.WithCancel(resp.Request.Context())
			require.NoError(t, derived.Err(), name)
			require.NoError(t, context.Cause(resp.Request.Context()), name)
			cancel(cause)
			<-derived.Done()
			require.Equal(t, cause, context.Cause(resp.Request.Context()), name)
			stop()
		}
	}
}

func TestTheRequestOfARepeatedAttemptIsTheCallers(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(resiltest.Reply{Status: 503}, resiltest.Reply{Body: "x"})
	retries := retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), retry.ClientOptions{})
	attempt := timeout.NewClient(nil, timeout.ClientOptions{PerAttempt: true})
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/", nil))
	resp, err := client.New(s, retries, attempt).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, s.Calls())
	require.Same(t, req, resp.Request)

	s = resiltest.NewScript(resiltest.Reply{Status: 503}, resiltest.Reply{Body: "x"})
	resign := retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), retry.ClientOptions{ModifyRequest: func(req *http.Request, _ int) error {
		req.Header.Set("Authorization", "new")
		return nil
	}})
	resp, err = client.New(s, resign, attempt).RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "new", s.Attempts()[1].Request.Header.Get("Authorization"))
	require.Same(t, req, resp.Request)
}

func TestARejectionKeepsItsMarkAndItsContext(t *testing.T) {
	t.Parallel()
	refuse := roundTrip(func(req *http.Request) (*http.Response, error) {
		return client.Reject(req, http.StatusServiceUnavailable, core.ErrRejected), nil
	})
	for name, plugins := range each() {
		resp, err := client.New(refuse, plugins...).RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/", nil)))
		require.NoError(t, err, name)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, core.ErrRejected, client.Rejected(resp), name)
		require.NoError(t, resp.Request.Context().Err(), name)
	}
}
