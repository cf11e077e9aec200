package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	c := core.Must(metrics.New(&core.Registry{}, metrics.Config{}))
	require.Empty(t, samples(t, gatherer(t, c), "http_"), "nothing counts")
	limits := ratelimit.PerIP(ratelimit.PerHour(1))
	teapots := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerHour(1)})), ratelimit.ServerOptions{
		OnRejected: func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) { w.WriteHeader(http.StatusTeapot) },
	}))
	open := breaker.NewServer(core.Must(breaker.NewGroup(breaker.Config{Initial: breaker.ForcedOpen})), breaker.ServerOptions{})
	store := &ratelimittest.Failing{Store: &ratelimittest.Memory{}}
	store.Down()
	down := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{Name: "api", Store: store, OnStoreError: ratelimit.Deny})), ratelimit.ServerOptions{}))
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, h := range []http.Handler{
		limits(served), teapots.Handler(served), open.Handler(served), down.Handler(served),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{Status: 403}) }),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{Err: errDown}) }),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // a client that has left
			server.Reject(w, r, server.Rejection{Err: errors.Join(core.ErrRejected, context.Canceled)})
		}),
		http.NotFoundHandler(),
	} {
		for range 2 {
			c.Handler(h).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		}
	}
	require.Equal(t, map[string]float64{
		"http_rejections_total 429 rate_limited server": 1, "http_rejections_total 418 rate_limited server": 1,
		"http_rejections_total 503 circuit_open server": 2, "http_rejections_total 403 rejected server": 2, "http_rejections_total 503 rejected server": 2,
	}, samples(t, gatherer(t, c), "http_"))
}

func TestHandlerThatPanics(t *testing.T) {
	t.Parallel()
	c := core.Must(metrics.New(&core.Registry{}, metrics.Config{}))
	h := c.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Reject(w, r, server.Rejection{})
		panic(http.ErrAbortHandler)
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { h.ServeHTTP(httptest.NewRecorder(), r) })
	require.InDelta(t, 1, samples(t, gatherer(t, c), "http_")["http_rejections_total 503 rejected server"], 0)
}

// A handler that was cut off rejects too late, in a goroutine of its own. One that is in time is known outside of the Cut.
func TestHandlerAroundACut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := core.Must(metrics.New(&core.Registry{}, metrics.Config{}))
		limits := ratelimit.PerIP(ratelimit.PerHour(100))
		group := core.Must(breaker.NewGroup(breaker.Config{}))
		cut := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ServerOptions{Cut: true})
		for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
			for _, delay := range []time.Duration{0, 0, 0, 2 * time.Second} {
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(delay)
					server.Reject(w, r, server.Rejection{Status: status})
				})
				w := httptest.NewRecorder()
				c.Handler(limits(breaker.NewServer(group, breaker.ServerOptions{}).Handler(cut.Handler(h)))).
					ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
				if delay == 0 {
					require.Equal(t, status, w.Code)
				}
			}
		}
		late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second)
			server.Reject(w, r, server.Rejection{})
		})
		c.Handler(http.TimeoutHandler(late, time.Second, "")).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		time.Sleep(time.Second) // the last handlers
		require.Equal(t, uint64(6), group.For("").Stats().Ignored)
		got := samples(t, gatherer(t, c), "http_")
		require.InDelta(t, 3, got["http_rejections_total 403 rejected server"], 0)
		require.InDelta(t, 3, got["http_rejections_total 503 rejected server"], 0)
	})
}

type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type closing struct {
	http.RoundTripper
	closed bool
}

func (c *closing) CloseIdleConnections() { c.closed = true }

func TestTransport(t *testing.T) {
	t.Parallel()
	c := core.Must(metrics.New(&core.Registry{}, metrics.Config{}))
	full := core.Must(bulkhead.New(bulkhead.Config{Limit: 1, MaxQueue: -1}))
	core.Must(full.Acquire(t.Context(), "", 1))
	_, errFull := full.Acquire(t.Context(), "", 1)
	open := breaker.NewClient(core.Must(breaker.NewGroup(breaker.Config{Initial: breaker.ForcedOpen})), breaker.ClientOptions{})
	fails := func(err error) http.RoundTripper {
		return answering(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	for _, next := range []http.RoundTripper{
		open.Transport(fails(errDown)), fails(fmt.Errorf("pool: %w", errors.Join(errDown, errFull))), fails(core.ErrRejected), fails(errDown),
		fails(fmt.Errorf("ads: %w", &gate.LimitedError{})), fails(fmt.Errorf("held back: %w", blame.ErrHeld)),
		answering(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Request: r}, nil
		}),
	} {
		resp, err := c.Transport(next).RoundTrip(httptest.NewRequest(http.MethodGet, "http://a.test/", http.NoBody))
		if err == nil && resp.Body != nil {
			require.NoError(t, resp.Body.Close())
		}
	}
	require.Equal(t, map[string]float64{
		"http_rejections_total none circuit_open client": 1, "http_rejections_total none rate_limited client": 1,
		"http_rejections_total none bulkhead client": 1, "http_rejections_total none rejected client": 1,
	}, samples(t, gatherer(t, c), "http_"))
	var next closing
	(&http.Client{Transport: c.Transport(&next)}).CloseIdleConnections()
	require.True(t, next.closed)
}
