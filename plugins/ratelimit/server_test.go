package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

func TestServer_ZeroConfigIs1000PerMinuteForEachIP(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{})
	require.Equal(t, "default", s.plugin.Name())
	require.Equal(t, server.Admission, s.plugin.Phase())
	for range 1000 {
		require.Equal(t, 200, fetch(s, "/").Code)
	}
	w := fetch(s, "/")
	require.Equal(t, 429, w.Code)
	require.Empty(t, w.Header().Get("RateLimit"))
	other := request(http.MethodGet, "/")
	other.RemoteAddr = "198.51.100.1:1"
	require.Equal(t, 200, do(s, other).Code)
	require.EqualValues(t, 1001, s.calls.Load())
}

func TestTotalTwoWeightTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{
			Limit:   ratelimit.PerMinute(2),
			Key:     func(r *http.Request) (string, bool) { return r.URL.Path, true },
			Weight:  func(*http.Request) (int64, error) { return 2, nil },
			Exclude: func(r *http.Request) bool { return r.URL.Path == "/exclude" },
			Headers: ratelimit.HeaderDraft10,
		})
		codes := map[string]int{}
		var mu sync.Mutex
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				w := fetch(s, "/same", "Accept", "text/plain")
				limited := w.Header().Get("X-Rate-Limited")
				if w.Code == http.StatusTooManyRequests {
					retry, err := strconv.Atoi(w.Header().Get("Retry-After"))
					if err != nil || retry < 1 || retry > 60 || !strings.Contains(w.Body.String(), "Rate limit exceeded.") {
						limited = "wrong"
					}
				}
				mu.Lock()
				defer mu.Unlock()
				codes[fmt.Sprint(w.Code, " ", limited)]++
			})
		}
		both.Wait()
		require.Equal(t, map[string]int{"200 false": 1, "429 true": 1}, codes)
		for range 3 {
			w := fetch(s, "/exclude")
			require.Equal(t, 200, w.Code)
			require.Empty(t, w.Header(), "excluded: none of the fields")
		}
	})
}

func TestDefaultKeyIsTheIPWhateverTheUserAgent(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1)})
	require.Equal(t, 200, fetch(s, "/", "User-Agent", "a").Code)
	require.Equal(t, 429, fetch(s, "/", "User-Agent", "b").Code)
	require.Equal(t, 429, fetch(s, "/", "X-Forwarded-For", "1.2.3.4", "X-Real-IP", "1.2.3.4", "Forwarded", "for=1.2.3.4").Code, "forged")
}

func TestAFailingHandlerIsStillCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1)})
	s.status = 500
	w := fetch(s, "/")
	require.Equal(t, 500, w.Code)
	require.Equal(t, "false", w.Header().Get("X-Rate-Limited"))
	require.Equal(t, 429, fetch(s, "/").Code)
	require.EqualValues(t, 1, s.calls.Load(), "a refused request never reaches the handler")
}

func TestWeightIsThePrice(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(10), Weight: cost})
	for _, tt := range []struct {
		price string
		want  int
	}{{"4", 200}, {"4", 200}, {"3", 429}, {"2", 200}, {"1", 429}} {
		require.Equal(t, tt.want, fetch(s, "/", "Cost", tt.price).Code, "price %s", tt.price)
	}
}

func TestServer_GlobalAndRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		global := serve(t, ratelimit.ServerConfig{Limit: ratelimit.FixedWindow(6, 6*time.Second)})
		custom, err := global.plugin.With(func(c *ratelimit.ServerConfig) {
			c.Name, c.Limit = "custom", ratelimit.FixedWindow(5, 10*time.Second)
		})
		require.NoError(t, err)
		h := chi.NewRouter()
		h.Use(global.plugin.Handler)
		h.Method(http.MethodGet, "/default", global.handler())
		h.With(custom.Handler).Method(http.MethodGet, "/custom", global.handler())
		for range 6 {
			require.Equal(t, 200, fetch(h, "/default").Code)
		}
		require.Equal(t, 429, fetch(h, "/default").Code)
		require.Equal(t, 429, fetch(h, "/custom").Code)
		time.Sleep(7 * time.Second)
		for range 5 {
			require.Equal(t, 200, fetch(h, "/custom").Code)
		}
		require.Equal(t, 429, fetch(h, "/custom").Code)
	})
}

func TestAnIdleKeyIsAsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.FixedWindow(1, 500*time.Millisecond)})
		require.Equal(t, 200, fetch(s, "/").Code)
		require.Equal(t, 429, fetch(s, "/").Code)
		time.Sleep(time.Second)
		result, err := s.plugin.Limiter().Peek(t.Context(), "192.0.2.1")
		require.NoError(t, err)
		require.EqualValues(t, 1, result.Remaining)
		require.Zero(t, result.FullAfter)
		require.Equal(t, 200, fetch(s, "/").Code)
	})
}

func TestRequestsOfDifferentCosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit int64
			costs []string
			want  []int
		}{
			{3, []string{"0", "0", "0", "0"}, []int{200, 200, 200, 200}},
			{3, []string{"1", "1", "1", "1"}, []int{200, 200, 200, 429}},
			{3, []string{"2", "2", "1"}, []int{200, 429, 200}},
			{3, []string{"4", "3"}, []int{413, 200}},
			{3, []string{"3", "0", "4"}, []int{200, 200, 413}},
		} {
			s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(tt.limit), Weight: cost})
			var got []int
			for _, c := range tt.costs {
				w := fetch(s, "/", "Cost", c)
				got = append(got, w.Code)
				require.Equal(t, w.Code == http.StatusTooManyRequests, w.Header().Get("Retry-After") != "", "a cost that never fits has no Retry-After")
			}
			require.Equal(t, tt.want, got, "limit %d, costs %v", tt.limit, tt.costs)
		}
	})
}

func TestRetryAfterIsEnoughAndRoundedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit ratelimit.Limit
			want  string
		}{
			{ratelimit.FixedWindow(1, 200*time.Millisecond), "1"},
			{ratelimit.PerSecond(1), "1"},
			{ratelimit.FixedWindow(1, 59400*time.Millisecond), "60"},
			{ratelimit.TokenBucket(3, 10*time.Second, 1), "4"},
		} {
			s := serve(t, ratelimit.ServerConfig{Limit: tt.limit})
			require.Equal(t, 200, fetch(s, "/").Code)
			w := fetch(s, "/")
			require.Equal(t, 429, w.Code)
			require.Equal(t, tt.want, w.Header().Get("Retry-After"), tt.limit)
			seconds, err := strconv.Atoi(tt.want)
			require.NoError(t, err)
			time.Sleep(time.Duration(seconds) * time.Second)
			require.Equal(t, 200, fetch(s, "/").Code, "%v: waiting Retry-After is enough", tt.limit)
		}
	})
}

func TestServer_KeyInInfo(t *testing.T) {
	t.Parallel()
	var keys []string
	s := serve(t, ratelimit.ServerConfig{
		Key:       server.Header("User"),
		Routes:    []ratelimit.Route{{Pattern: "/export", Limit: ratelimit.PerMinute(1)}},
		OnSuccess: func(_ http.ResponseWriter, _ *http.Request, info ratelimit.Info) { keys = append(keys, info.Key) },
	})
	long := strings.Repeat("x", 500)
	for _, user := range []string{"ann", "#1", "7:/export:ann", long} {
		fetch(s, "/", "User", user)
	}
	fetch(s, "/export", "User", "ann")
	require.Equal(t, []string{"ann", "#key:#1", "7:/export:ann", long, "#route:7:/export:ann"}, keys)
	require.NoError(t, s.plugin.Limiter().Reset(t.Context(), "#route:7:/export:ann"))
	require.Equal(t, 200, fetch(s, "/export", "User", "ann").Code, "a key can be reset by what Info says")
}

func TestServer_200AtOnce20Pass(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(20, 24*time.Hour, 20), Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit})
	codes := make(chan int, 200)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() { codes <- fetch(s, "/").Code })
	}
	all.Wait()
	close(codes)
	got := map[int]int{}
	for c := range codes {
		got[c]++
	}
	require.Equal(t, map[int]int{200: 20, 429: 180}, got)
	require.EqualValues(t, 20, s.calls.Load())
}

func TestServer_Refusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerMinute(1), Headers: ratelimit.HeaderDraft10, Weight: cost})
		fetch(s, "/", "Cost", "1")
		time.Sleep(10 * time.Second)
		w := fetch(s, "/", "Cost", "1")
		require.Equal(t, 429, w.Code)
		require.Equal(t, http.Header{
			"Content-Type":     {"application/problem+json"},
			"Cache-Control":    {"no-store"},
			"Retry-After":      {"50"},
			"X-Rate-Limited":   {"true"},
			"Ratelimit-Policy": {`"api";q=1;w=60`},
			"Ratelimit":        {`"api";r=0;t=50`},
		}, w.Header())
		require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded",
			"status":429,"detail":"Rate limit exceeded.","violated-policies":["api"]}`, w.Body.String())

		w = fetch(s, "/", "Cost", "2", "Accept", "text/plain")
		require.Equal(t, 413, w.Code)
		require.Equal(t, "Request Entity Too Large: The request costs 2, and the limit is 1.\n", w.Body.String())
		require.Equal(t, "true", w.Header().Get("X-Rate-Limited"))
		require.Equal(t, `"api";r=0;t=50`, w.Header().Get("RateLimit"))
		require.Empty(t, w.Header().Get("Retry-After"))

		w = do(s, request(http.MethodHead, "/", "Cost", "1"))
		require.Equal(t, 429, w.Code)
		require.Empty(t, w.Body.String())
	})
}

func TestServer_WeightThatFails(t *testing.T) {
	t.Parallel()
	var weight error
	s := serve(t, ratelimit.ServerConfig{
		Limit:   ratelimit.PerMinute(1),
		Weight:  func(*http.Request) (int64, error) { return 1, weight },
		Headers: ratelimit.HeaderDraft10,
	})
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{server.Rejection{Status: 411, Detail: "Send a Content-Length."}, 411, `{"type":"about:blank","title":"Length Required","status":411,"detail":"Send a Content-Length."}`},
		{fmt.Errorf("wrapped: %w", server.Rejection{Status: 400, Detail: "Bad page."}), 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"Bad page."}`},
		{errors.New("secret"), 500, `{"type":"about:blank","title":"Internal Server Error","status":500}`},
		{server.Rejection{Status: 42, Detail: "no status"}, 500, `{"type":"about:blank","title":"Internal Server Error","status":500}`},
	} {
		weight = tt.err
		w := fetch(s, "/")
		require.Equal(t, tt.status, w.Code)
		require.JSONEq(t, tt.body, w.Body.String())
		require.Empty(t, w.Header().Get("X-Rate-Limited"))
		require.Empty(t, w.Header().Get("RateLimit"))
	}
	weight = nil
	require.Equal(t, 200, fetch(s, "/").Code, "nothing was taken")
	require.EqualValues(t, 1, s.calls.Load())

	s = serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1), Weight: cost})
	require.Equal(t, 500, fetch(s, "/", "Cost", "-").Code, "negative")
	require.Equal(t, 200, fetch(s, "/", "Cost", "1").Code, "nothing was taken")
}

func TestServer_StoreFails(t *testing.T) {
	t.Parallel()
	all := ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit
	var succeeded, failed int
	cfg := ratelimit.ServerConfig{
		Store: brokenStore{}, Headers: all,
		OnSuccess: func(http.ResponseWriter, *http.Request, ratelimit.Info) { succeeded++ },
		OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
			require.NotErrorIs(t, rej.Err, ratelimit.ErrLimited)
			server.Reject(w, r, rej)
		},
	}
	listening := func() *core.Registry {
		return eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Warn {
				failed++
			}
		})
	}
	for _, wait := range []time.Duration{0, time.Second} {
		s := serve(t, with(cfg, func(c *ratelimit.ServerConfig) { c.MaxWait, c.Registry = wait, listening() }))
		for range 3 {
			w := fetch(s, "/")
			require.Equal(t, 200, w.Code)
			require.Empty(t, w.Header(), "no header that lies")
		}
		s = serve(t, with(cfg, func(c *ratelimit.ServerConfig) {
			c.MaxWait, c.OnStoreError, c.Registry = wait, ratelimit.Deny, listening()
		}))
		w := fetch(s, "/")
		require.Equal(t, 503, w.Code)
		require.NotContains(t, w.Body.String(), "10.0.0.5")
		require.Empty(t, w.Header().Get("X-Rate-Limited"))
		require.Zero(t, s.calls.Load())
	}
	require.Zero(t, succeeded)
	require.Equal(t, 8, failed)
}

func TestServer_ClosedIs503(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{})
	require.NoError(t, s.plugin.Close())
	require.NoError(t, s.plugin.Close())
	require.Equal(t, 503, fetch(s, "/").Code)
	require.Zero(t, s.calls.Load())
}

func TestServer_With_RefusalOfTheInnerRefundsTheOuter(t *testing.T) {
	t.Parallel()
	api := serve(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(10), Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit})
	login := core.Must(api.plugin.With(func(c *ratelimit.ServerConfig) { c.Name, c.Limit = "login", ratelimit.PerMinute(2) }))
	r := chi.NewRouter()
	r.Use(api.plugin.Handler)
	r.With(login.Handler).Method(http.MethodPost, "/login", api.handler())
	left := func() int64 {
		result, err := api.plugin.Limiter().Peek(t.Context(), "192.0.2.1")
		require.NoError(t, err)
		return result.Remaining
	}
	for i := range 2 {
		w := do(r, request(http.MethodPost, "/login"))
		require.Equal(t, 200, w.Code)
		require.EqualValues(t, 9-i, left(), "both are charged")
		require.Equal(t, []string{`"api";q=10;w=3600`, `"login";q=2;w=60`}, w.Header().Values("RateLimit-Policy"))
		require.Len(t, w.Header().Values("RateLimit"), 2)
		require.Equal(t, []string{"2"}, w.Header().Values("X-RateLimit-Limit"), "the one with least left")
		require.Equal(t, []string{"false"}, w.Header().Values("X-Rate-Limited"))
	}
	for range 20 {
		w := do(r, request(http.MethodPost, "/login"))
		require.Equal(t, 429, w.Code)
		require.Equal(t, []string{"true"}, w.Header().Values("X-Rate-Limited"))
		require.EqualValues(t, 8, left(), "what the inner one refuses costs nothing")
	}
	require.Equal(t, 404, do(r, request(http.MethodGet, "/nothing")).Code)
	require.EqualValues(t, 7, left())
	require.NoError(t, login.Close())
}

func TestServer_RefundsWhatAnyPluginRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1)})
	full := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Reject(w, r, server.Rejection{Err: fmt.Errorf("full: %w", core.ErrRejected)})
	}))
	for range 3 {
		require.Equal(t, 503, fetch(full, "/").Code)
	}
	aborting := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		recorder.MarkRejected(w, errors.New("full"))
		panic(http.ErrAbortHandler)
	}))
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { fetch(aborting, "/") })
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code)
	ownAnswer := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	require.NoError(t, s.plugin.Limiter().Reset(t.Context(), "192.0.2.1"))
	require.Equal(t, 429, fetch(ownAnswer, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code, "what a handler answers itself is paid for")
}

func TestServer_With_HasNoRoutesOfTheOuter(t *testing.T) {
	t.Parallel()
	routes := []ratelimit.Route{{Pattern: "/login", Limit: ratelimit.PerMinute(100)}}
	api := serve(t, ratelimit.ServerConfig{Name: "api", Routes: routes})
	login := core.Must(api.plugin.With(func(c *ratelimit.ServerConfig) { c.Name, c.Limit = "login", ratelimit.PerMinute(1) }))
	h := login.Handler(api.handler())
	require.Equal(t, 200, fetch(h, "/login").Code)
	require.Equal(t, 429, fetch(h, "/login").Code)
	require.Empty(t, login.Config().Routes)
	require.Equal(t, routes, api.plugin.Config().Routes)
}

func TestServer_Hooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var infos []ratelimit.Info
		answer := true
		s := serve(t, ratelimit.ServerConfig{
			Name: "api", Limit: ratelimit.PerMinute(1), Weight: cost,
			OnSuccess: func(w http.ResponseWriter, _ *http.Request, info ratelimit.Info) {
				w.Header().Set("X-Left", strconv.FormatInt(info.Result.Remaining, 10))
				w.Header().Del("X-Rate-Limited")
				infos = append(infos, info)
			},
			OnRejected: func(w http.ResponseWriter, _ *http.Request, rej server.Rejection) {
				w.Header().Set("X-Mine", w.Header().Get("Retry-After"))
				infos = append(infos, limitedInfo(rej))
				if answer {
					w.WriteHeader(http.StatusTeapot)
					_, _ = w.Write([]byte("no"))
				}
			},
		})
		w := fetch(s, "/", "Cost", "1")
		require.Equal(t, "0", w.Header().Get("X-Left"))
		require.Empty(t, w.Header().Values("X-Rate-Limited"))

		outer := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1)})
		nested := outer.plugin.Handler(s)
		w = fetch(nested, "/", "Cost", "1")
		require.Equal(t, 418, w.Code)
		require.Equal(t, "no", w.Body.String())
		require.Equal(t, "60", w.Header().Get("X-Mine"))
		require.Equal(t, "true", w.Header().Get("X-Rate-Limited"))

		answer = false
		w = fetch(nested, "/", "Cost", "1")
		require.Equal(t, 429, w.Code, "the hook wrote nothing; and the outer limit was given back")
		require.Equal(t, "60", w.Header().Get("X-Mine"))
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))

		w = fetch(s, "/", "Cost", "2")
		require.Equal(t, 413, w.Code)
		require.Empty(t, w.Header().Get("X-Mine"))

		require.Len(t, infos, 4)
		for i, allowed := range []bool{true, false, false, false} {
			require.Equal(t, "api", infos[i].Name)
			require.Equal(t, allowed, infos[i].Result.Allowed)
		}
		require.Equal(t, ratelimit.Never, infos[3].Result.RetryAfter)
	})
}

func TestServer_Tiers(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerMinute(2), Headers: ratelimit.HeaderDraft10, Key: server.Header("User"),
		Tier: func(r *http.Request) ratelimit.Limit {
			switch r.Header.Get("Plan") {
			case "gold":
				return ratelimit.PerMinute(4)
			case "broken":
				return ratelimit.PerMinute(-1)
			}
			return ratelimit.Limit{}
		},
		Routes: []ratelimit.Route{{Pattern: "/one", Limit: ratelimit.PerMinute(1)}},
	})
	for range 2 {
		w := fetch(s, "/", "User", "ann")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"default";q=2;w=60`, w.Header().Get("RateLimit-Policy"))
	}
	require.Equal(t, 429, fetch(s, "/", "User", "ann").Code)
	for range 2 {
		w := fetch(s, "/", "User", "ann", "Plan", "gold")
		require.Equal(t, 200, w.Code, "what was taken counts, and there is more")
		require.Equal(t, `"default";q=4;w=60`, w.Header().Get("RateLimit-Policy"))
	}
	require.Equal(t, 429, fetch(s, "/", "User", "ann", "Plan", "gold").Code)
	require.Equal(t, 500, fetch(s, "/", "User", "ann", "Plan", "broken").Code)
	require.Equal(t, 200, fetch(s, "/one", "User", "ann", "Plan", "gold").Code)
	require.Equal(t, 429, fetch(s, "/one", "User", "ann", "Plan", "gold").Code, "a route with a limit of its own has no tiers")
}

func TestServer_MaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(1, 10*time.Second, 1), MaxWait: 15 * time.Second, Weight: cost})
		start := time.Now()
		require.Equal(t, 200, fetch(s, "/", "Cost", "1").Code)
		require.Zero(t, time.Since(start))
		w := fetch(s, "/", "Cost", "1")
		require.Equal(t, 200, w.Code)
		require.Equal(t, "false", w.Header().Get("X-Rate-Limited"))
		require.Equal(t, 10*time.Second, time.Since(start))

		var second sync.WaitGroup
		second.Go(func() { fetch(s, "/", "Cost", "1") })
		synctest.Wait()
		w = fetch(s, "/", "Cost", "1")
		require.Equal(t, 429, w.Code, "the third would wait 20s")
		require.Equal(t, "20", w.Header().Get("Retry-After"))
		require.Equal(t, 10*time.Second, time.Since(start), "refused at once")
		second.Wait()

		ctx, cancel := context.WithTimeoutCause(t.Context(), 12*time.Second, errors.New("client gone"))
		defer cancel()
		before := s.calls.Load()
		gone, leave := context.WithCancel(ctx)
		time.AfterFunc(3*time.Second, leave)
		w = do(s, request(http.MethodGet, "/", "Cost", "1").WithContext(gone))
		require.Equal(t, 503, w.Code)
		require.Equal(t, 23*time.Second, time.Since(start), "the wait ends with the client")
		require.Equal(t, before, s.calls.Load())
		require.Equal(t, 413, fetch(s, "/", "Cost", "2").Code)
	})
}

func TestServer_InAPipeline(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Name: "api"})
	users := serve(t, ratelimit.ServerConfig{Name: "users"})
	p, err := server.New(server.InPhase(users.plugin, server.Handling+10), s.plugin)
	require.NoError(t, err)
	require.Equal(t, "Admission ratelimit.Server(api) > Handling+10 ratelimit.Server(users)", p.String())
}

func TestServer_Registry(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	s := serve(t, ratelimit.ServerConfig{Name: "api", Registry: registry})
	found, ok := core.Lookup[*ratelimit.Server](registry, "api")
	require.True(t, ok)
	require.Same(t, s.plugin, found)
	_, err := ratelimit.NewServer(ratelimit.ServerConfig{Name: "api", Registry: registry})
	require.ErrorContains(t, err, "already registered")
	_, err = s.plugin.With(func(*ratelimit.ServerConfig) {})
	require.EqualError(t, err, `ratelimit.ServerConfig.Name = "api": must be another one than that of the limiter it comes from, and of its layers and routes`)
	require.NoError(t, s.plugin.Close())
	_, ok = core.Lookup[*ratelimit.Server](registry, "api")
	require.False(t, ok)
}

// A writer of net/http keeps what it can do: a limited handler can flush.
func TestServer_RealServer(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1), Headers: ratelimit.HeaderDraft10})
	srv := httptest.NewServer(s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})))
	t.Cleanup(srv.Close)
	for _, want := range []int{200, 429} {
		resp, err := srv.Client().Get(srv.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode)
		require.NotEmpty(t, resp.Header.Get("RateLimit"))
	}
	result, err := s.plugin.Limiter().Peek(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	require.Equal(t, coreratelimit.Result{Allowed: true, Limit: 1, NextAfter: result.NextAfter, FullAfter: result.FullAfter, Receipt: result.Receipt}, result)
}
