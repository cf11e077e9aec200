package breaker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
	"github.com/gresil/gresil/server"
)

func TestSlowRequestsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		slow := does(func(req *http.Request) (*http.Response, error) {
			time.Sleep(took)
			return respond(req, 200), nil
		})
		p := newClient(t, breaker.ClientConfig{Window: 4, SlowCall: time.Second, SlowRate: 0.5})
		rt := p.Transport(slow)
		send(t, rt, 2, 200)
		took = 2 * time.Second
		send(t, rt, 2, 200)
		_ = refused(t, rt)
		require.EqualValues(t, 2, p.Stats().SlowSuccesses)

		s := newServer(t, breaker.ServerConfig{Window: 2, SlowCall: time.Second})
		h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			w.WriteHeader(http.StatusOK)
			time.Sleep(10 * time.Second)
		}))
		for range 2 {
			require.Equal(t, http.StatusOK, serve(t.Context(), h, "/").Code)
		}
		require.Equal(t, breaker.Open, s.For("").State(), "judged when the header is sent")
	})
}

func TestTripByASingleResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			status int
			header string
			want   time.Duration
		}{
			{503, "120", 2 * time.Minute},
			{429, "5", 5 * time.Second}, // shorter than OpenDelay: it is what was asked for
			{503, "99999999999", 10 * time.Minute},
			{503, "", 0},
			{503, "soon", 0},
			{429, "0", 0},
			{200, "120", 0},
			{500, "120", 2 * time.Minute},
			{403, "2.5", 2500 * time.Millisecond},
			{403, "", 0},
			{302, "120", 0},
		} {
			p := newClient(t, breaker.ClientConfig{Trip: breaker.TripOnRetryAfter})
			rt := p.Transport(answers(c.status, c.header))
			send(t, rt, 1, c.status)
			if c.want == 0 {
				require.Equal(t, breaker.Closed, p.For(host).State(), c)
				continue
			}
			require.Equal(t, c.want, refused(t, rt).RetryAfter(), c)
			require.EqualValues(t, 1, p.Stats().Failures)
		}
		down := newClient(t, breaker.ClientConfig{Trip: func(*http.Response, time.Duration) time.Duration { panic("no response") }})
		_, err := get(t.Context(), down.Transport(resiltest.NewScript(resiltest.Reply{Err: errDown})), "https://"+host)
		require.ErrorIs(t, err, errDown)
		inner := does(func(req *http.Request) (*http.Response, error) {
			return client.Reject(req, 429, errors.Join(core.ErrRejected, errDown)), nil
		})
		p := newClient(t, breaker.ClientConfig{Trip: func(*http.Response, time.Duration) time.Duration { return time.Hour }})
		send(t, p.Transport(inner), 2, 429)
		require.EqualValues(t, 2, p.Stats().Ignored, "a rejection from further in")
	})
}

func TestATripThatPanicsGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{Trials: 1, Initial: breaker.HalfOpen, Trip: func(*http.Response, time.Duration) time.Duration { panic("trip") }})
	for range 3 {
		require.PanicsWithValue(t, "trip", func() { _, _ = get(t.Context(), p.Transport(resiltest.NewScript()), "https://"+host) })
	}
	require.Equal(t, breaker.HalfOpen, p.For(host).State())
}

func TestOverrideWithAnExtraPredicate(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{Window: 3})
	s := resiltest.NewScript()
	rt := p.Transport(s)
	teapots := p.Override(t.Context(), func(c *breaker.ClientCall) {
		rest := c.Classify
		c.Classify = func(ctx context.Context, resp *http.Response, err error) core.Outcome {
			if err == nil && resp.StatusCode == http.StatusTeapot {
				return core.Failure
			}
			return rest(ctx, resp, err)
		}
	})
	for _, status := range []int{200, 418, 500} { // the rest is classified as before
		s.Set(resiltest.Reply{Status: status})
		_, err := get(teapots, rt, "https://"+host)
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, p.Stats().Failures)
	_ = refused(t, rt)
	p.For(host).Reset()
	s.Set(resiltest.Reply{Status: 418})
	send(t, rt, 3, 418)
	require.EqualValues(t, 2, p.Stats().Failures, "without it a teapot is none")
}

func TestAnOpenBreakerBlamesTheServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, breaker.ServerConfig{})
	require.NoError(t, s.For("").OpenFor(90*time.Second))
	w := serve(t.Context(), s.Handler(status(200)), "/")
	require.Equal(t, http.StatusServiceUnavailable, w.Code, "and not 429")
	require.Equal(t, "90", w.Header().Get("Retry-After"))
}

func TestClientSetConfig(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{Window: 2, MaxKeys: 10})
	bad := p.SetConfig(breaker.ClientConfig{Name: "other", Window: -1})
	require.ErrorContains(t, bad, "breaker.ClientConfig.Window")
	require.ErrorContains(t, bad, "breaker.ClientConfig.MaxKeys = 0: must stay 10")
	require.EqualError(t, p.SetConfig(breaker.ClientConfig{Name: "other", MaxKeys: 10}), "breaker.ClientConfig.Name = other: must stay default")
	require.Equal(t, 2, p.Config().Window)
	named := newClient(t, breaker.ClientConfig{Name: "api", Registry: &core.Registry{}})
	before := named.Config()
	require.NoError(t, named.SetConfig(breaker.ClientConfig{}))
	require.Equal(t, before, named.Config(), "what is not said stays")

	s := resiltest.NewScript(resiltest.Reply{Status: 500})
	rt := p.Transport(s)
	send(t, rt, 2, 500)
	_ = refused(t, rt)
	require.NoError(t, p.SetConfig(breaker.ClientConfig{
		Window: 3, MaxKeys: 10, SyntheticResponse: true,
		Key:      func(req *http.Request) string { return req.URL.Path },
		Classify: func(context.Context, *http.Response, error) core.Outcome { return core.Success },
	}))
	require.Equal(t, breaker.Open, p.For(host).State(), "it keeps its state")
	require.Equal(t, 3, p.For(host).Config().Window)
	send(t, rt, 5, 500) // another key, and no failures
	require.NoError(t, p.For("").SetState(breaker.ForcedOpen))
	send(t, rt, 1, 503)
}

func TestServerSetConfig(t *testing.T) {
	t.Parallel()
	s := newServer(t, breaker.ServerConfig{Window: 2})
	err := s.SetConfig(breaker.ServerConfig{Key: server.ByRoute(), MaxKeys: 5, Trials: -1})
	require.ErrorContains(t, err, "breaker.ServerConfig.Trials")
	require.ErrorContains(t, err, "breaker.ServerConfig.MaxKeys = 5: must stay 0")
	require.ErrorContains(t, err, "breaker.ServerConfig.Key = true: must stay set: false")
	require.ErrorContains(t, s.SetConfig(breaker.ServerConfig{Name: "other"}), "breaker.ServerConfig.Name = other: must stay default")
	h := s.Handler(status(500))
	serve(t.Context(), h, "/")
	require.NoError(t, s.SetConfig(breaker.ServerConfig{Window: 3, Classify: func(*http.Request, *server.Recorder) core.Outcome { return core.Success }}))
	require.Equal(t, 1, s.For("").Snapshot().Failures, "it keeps its window")
	for range 5 {
		serve(t.Context(), h, "/")
	}
	require.Equal(t, breaker.Closed, s.For("").State())
	require.Equal(t, 3, s.Config().Window)

	named := newServer(t, breaker.ServerConfig{Name: "shop", Registry: &core.Registry{}})
	before := named.Config()
	require.NoError(t, named.SetConfig(breaker.ServerConfig{}))
	require.Equal(t, before, named.Config(), "what is not said stays")

	keyed := newServer(t, breaker.ServerConfig{Key: server.ByRoute()})
	require.ErrorContains(t, keyed.SetConfig(breaker.ServerConfig{}), "breaker.ServerConfig.Key = false: must stay set: true")
	require.NoError(t, keyed.SetConfig(breaker.ServerConfig{Key: server.ByRoute(), Window: 7}))
	require.Equal(t, 7, keyed.Group().Config().Window)
}

// A call that an inner plugin rejected was not made, whatever Classify returns.
func TestARejectionFurtherInIsNoFailure(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{Window: 1})
	rt := p.Transport(does(func(req *http.Request) (*http.Response, error) {
		return client.Reject(req, http.StatusServiceUnavailable, core.ErrRejected), nil
	}))
	ctx := p.Override(t.Context(), func(c *breaker.ClientCall) {
		c.Classify = func(context.Context, *http.Response, error) core.Outcome { return core.Failure }
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody)
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Zero(t, p.Stats().Failures)
}

// Trip opens for at least what the response asks for.
func TestTripIsNotShorterThanRetryAfter(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{Trip: func(*http.Response, time.Duration) time.Duration { return time.Second }})
	rt := p.Transport(answers(http.StatusTooManyRequests, "60"))
	send(t, rt, 1, http.StatusTooManyRequests)
	require.Equal(t, time.Minute, p.For(host).Snapshot().OpenFor)
}

func TestAskedToWaitIsBoundedByMaxRetryAfter(t *testing.T) {
	t.Parallel()
	for longest, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, 2 * time.Hour: time.Hour, 0: 10 * time.Minute, -1: 0} {
		p := newClient(t, breaker.ClientConfig{Trip: breaker.TripOnRetryAfter, MaxRetryAfter: longest})
		send(t, p.Transport(answers(503, "3600")), 1, 503)
		require.Equal(t, want, p.For(host).Snapshot().OpenFor, longest)
	}
}

func TestATripWhileHalfOpenIsNoShorterThanOpenDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newClient(t, breaker.ClientConfig{Trip: breaker.TripOnRetryAfter, OpenDelay: backoff.Linear{Delay: 10 * time.Second, Jitter: -1}})
		rt := p.Transport(answers(503, "1"))
		for _, want := range []time.Duration{time.Second, 20 * time.Second, 30 * time.Second} {
			send(t, rt, 1, 503)
			wait := refused(t, rt).RetryAfter()
			require.Equal(t, want, wait)
			time.Sleep(wait)
		}
	})
}

func TestServerTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, breaker.ServerConfig{Trip: func(r *http.Request, sent *server.Recorder) time.Duration {
			require.NoError(t, sent.Rejected())
			if r.URL.Path == "/banned" && sent.Status() == http.StatusForbidden {
				return time.Hour
			}
			return 0
		}})
		reject := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) }))
		serve(t.Context(), reject, "/banned")
		h := s.Handler(status(403))
		serve(t.Context(), h, "/")
		serve(t.Context(), s.Handler(status(500)), "/banned")
		require.Equal(t, breaker.Closed, s.For("").State())
		require.Equal(t, 403, serve(t.Context(), h, "/banned").Code)
		w := serve(t.Context(), h, "/")
		require.Equal(t, []any{503, "3600"}, []any{w.Code, w.Header().Get("Retry-After")})
		stats := s.Stats()
		require.Equal(t, []uint64{1, 2, 1}, []uint64{stats.Successes, stats.Failures, stats.Ignored})
	})
}

func TestServerOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, breaker.ServerConfig{Window: 2, FailureRate: 1, Key: server.ByRoute()})
		other := newServer(t, breaker.ServerConfig{Window: 1})
		past := s.Override(t.Context(), func(c *breaker.ServerCall) { c.Disabled = true })
		serve(past, s.Handler(status(500)), "/")
		require.Zero(t, s.Stats().Failures)
		serve(past, other.Handler(status(500)), "/")
		require.EqualValues(t, 1, other.Stats().Failures, "another plugin")

		tenant := s.Override(t.Context(), func(c *breaker.ServerCall) { c.Key = "tenant" })
		harmless := s.Override(tenant, func(c *breaker.ServerCall) {
			c.Classify = func(*http.Request, *server.Recorder) core.Outcome { return core.Success }
		})
		teapots := s.Override(harmless, func(c *breaker.ServerCall) {
			rest := c.Classify
			c.Classify = func(r *http.Request, sent *server.Recorder) core.Outcome {
				if sent.Rejected() != nil || sent.Status() == http.StatusTeapot {
					return core.Failure
				}
				return rest(r, sent)
			}
		})
		reject := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) })
		h := s.Handler(status(418))
		serve(tenant, s.Handler(status(500)), "/")
		serve(harmless, s.Handler(status(500)), "/")
		serve(teapots, s.Handler(reject), "/")
		serve(tenant, h, "/")
		b := s.For("tenant")
		require.Equal(t, []int{2, 0}, []int{b.Snapshot().Calls, b.Snapshot().Failures})
		serve(teapots, h, "/")
		serve(teapots, h, "/")
		require.Equal(t, breaker.Open, b.State())
		require.Equal(t, 503, serve(harmless, h, "/").Code)
		require.Equal(t, 418, serve(t.Context(), h, "/").Code, "another key")
		serve(tenant, other.Handler(status(200)), "/")
	})
}
