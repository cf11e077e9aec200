package ratelimit_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

func path(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, prefix) }
}

func TestServer_AllowList(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerMinute(1), Headers: ratelimit.HeaderDraft10, Allow: path("/free"),
		Weight:    func(*http.Request) (int64, error) { return 1, nil },
		OnSuccess: func(w http.ResponseWriter, _ *http.Request, _ ratelimit.Info) { w.Header().Set("X-Told", "yes") },
	})
	for range 5 {
		w := fetch(s, "/free")
		require.Equal(t, 200, w.Code)
		require.Equal(t, http.Header{"X-Rate-Limited": {"false"}}, w.Header(), "nothing is said of a limit that it is not held to")
	}
	require.Equal(t, 200, fetch(s, "/").Code, "nothing was taken")
	require.Equal(t, 429, fetch(s, "/").Code)
	require.Equal(t, ratelimit.ServerStats{Allowed: 1, Rejected: 1, AllowListed: 5}, s.plugin.Stats())
}

func TestServer_BlockList(t *testing.T) {
	t.Parallel()
	outer := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1)})
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerMinute(1), Headers: ratelimit.HeaderDraft10, Block: path("/bad"), Allow: path("/"), Exclude: path("/bad/health"),
		Weight: func(*http.Request) (int64, error) { t.Error("a blocked request is not weighed"); return 0, nil },
		OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
			require.ErrorIs(t, rej.Err, core.ErrRejected)
			require.NotErrorIs(t, rej.Err, ratelimit.ErrLimited)
			server.Reject(w, r, rej)
		},
	})
	w := fetch(s, "/bad")
	require.Equal(t, 403, w.Code)
	require.Equal(t, http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}}, w.Header())
	require.JSONEq(t, `{"type":"about:blank","title":"Forbidden","status":403}`, w.Body.String())
	require.Zero(t, s.calls.Load())
	require.Equal(t, 200, fetch(s, "/bad/health").Code, "Exclude is before all")
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, ratelimit.ServerStats{Blocked: 1, AllowListed: 1}, s.plugin.Stats())

	nested := outer.plugin.Handler(s)
	for range 3 {
		require.Equal(t, 403, fetch(nested, "/bad").Code, "and each time the outer limit is given back")
	}
}

func TestServer_Shadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var allowed, rejected int
		told := func(http.ResponseWriter, *http.Request, ratelimit.Info) { t.Error("not in shadow") }
		weight := error(nil)
		s := serve(t, ratelimit.ServerConfig{
			Limit: ratelimit.PerMinute(2), Shadow: true, MaxWait: time.Hour, Headers: allHeaders | ratelimit.HeaderDraft03, Key: server.Header("User"),
			Weight:     func(*http.Request) (int64, error) { return 1, weight },
			Block:      path("/bad"),
			Allow:      path("/free"),
			OnRejected: func(http.ResponseWriter, *http.Request, server.Rejection) { t.Error("not in shadow") }, OnSuccess: told,
			Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
				switch e.Text {
				case "permits granted":
					allowed++
				case "permits refused":
					rejected++
				}
			}),
		})
		start := time.Now()
		get := func(target, user string) {
			w := fetch(s, target, "User", user)
			require.Equal(t, 200, w.Code)
			require.Empty(t, w.Header(), "nothing false, and so nothing")
		}
		for range 5 {
			get("/", "ann")
		}
		require.Equal(t, 2, allowed)
		require.Equal(t, 3, rejected)
		get("/bad", "ann")
		get("/free", "ann")
		get("/", "")
		weight = errors.New("unknown")
		get("/", "ann")
		require.NoError(t, s.plugin.Close())
		weight = nil
		get("/", "ann")
		require.Zero(t, time.Since(start), "nothing waits")
		require.EqualValues(t, 10, s.calls.Load())
		require.Equal(t, ratelimit.ServerStats{Allowed: 2, Shadowed: 5, AllowListed: 1, Failed: 2}, s.plugin.Stats())
	})
}

// What a handler says itself is none of a shadow's business.
func TestServer_ShadowLeavesTheHeaderAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Shadow: true, Allow: path("/free"), Headers: allHeaders})
	h := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, field := range []string{"X-Rate-Limited", "X-RateLimit-Limit"} {
			w.Header().Add(field, "a")
			w.Header().Add(field, "b")
		}
	}))
	for _, target := range []string{"/free", "/"} {
		require.Equal(t, http.Header{"X-Rate-Limited": {"a", "b"}, "X-Ratelimit-Limit": {"a", "b"}}, fetch(h, target).Header())
	}
}

// A shadow gives its charge back as the real limiter would.
func TestServer_ShadowRefunds(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(2), Shadow: true})
	full := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) }))
	for range 5 {
		require.Equal(t, 503, fetch(full, "/").Code)
	}
	require.EqualValues(t, 5, s.plugin.Stats().Allowed)
}

func TestRequestsWithoutAKey(t *testing.T) {
	t.Parallel()
	from := func(s *served, addr, user string) int {
		r := request(http.MethodGet, "/", "User", user)
		r.RemoteAddr = addr
		return do(s, r).Code
	}
	cfg := ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1), Key: server.Header("User")}
	peer := serve(t, with(cfg, func(c *ratelimit.ServerConfig) { c.Key = server.FirstOf(c.Key, server.ClientIP) }))
	require.Equal(t, 200, from(peer, "192.0.2.1:1", ""))
	require.Equal(t, 429, from(peer, "192.0.2.1:2", ""))
	require.Equal(t, 200, from(peer, "192.0.2.2:1", ""))
	require.Equal(t, 200, from(peer, "192.0.2.1:1", "192.0.2.1"), "a user with such a name is another key")
	require.Equal(t, 403, from(peer, "@", ""), "nor an IP")
	require.Equal(t, 403, from(serve(t, ratelimit.ServerConfig{}), "/run/app.sock", ""), "the default is the IP")

	shared := serve(t, with(cfg, func(c *ratelimit.ServerConfig) {
		c.Key = server.FirstOf(c.Key, func(*http.Request) (string, bool) { return "#shared", true })
	}))
	require.Equal(t, 200, from(shared, "192.0.2.1:1", ""))
	require.Equal(t, 429, from(shared, "192.0.2.2:1", ""))
	require.Equal(t, 200, from(shared, "192.0.2.2:1", "ann"))

	deny := serve(t, cfg)
	require.Equal(t, 403, from(deny, "192.0.2.1:1", ""))
	require.Equal(t, 200, from(deny, "192.0.2.1:1", "ann"))
	require.EqualValues(t, 1, deny.calls.Load())
	require.Equal(t, ratelimit.ServerStats{Allowed: 1, Blocked: 1}, deny.plugin.Stats())
}

func TestServer_StatsOfFailures(t *testing.T) {
	t.Parallel()
	bad := serve(t, ratelimit.ServerConfig{Weight: cost})
	fetch(bad, "/", "Cost", "-")
	fetch(bad, "/", "Cost", "0")
	fetch(bad, "/", "Cost", "1001")
	require.Equal(t, ratelimit.ServerStats{Allowed: 1, Rejected: 1, Failed: 1}, bad.plugin.Stats())
	for _, policy := range []ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny} {
		down := serve(t, ratelimit.ServerConfig{Store: brokenStore{}, OnStoreError: policy})
		fetch(down, "/")
		require.Equal(t, ratelimit.ServerStats{Failed: 1}, down.plugin.Stats(), policy)
	}
}

func TestServer_WaitsInAQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(1, time.Second, 1), MaxWait: time.Minute, MaxQueue: 2})
		require.Equal(t, 200, fetch(s, "/").Code)
		start := time.Now()
		var all sync.WaitGroup
		took, codes := [3]time.Duration{}, [3]int{}
		for i := range 3 {
			all.Go(func() {
				codes[i] = fetch(s, "/").Code
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		all.Wait()
		require.Equal(t, [3]int{200, 200, 429}, codes)
		require.Equal(t, [3]time.Duration{time.Second, 2 * time.Second, 0}, took)
		require.Equal(t, ratelimit.ServerStats{Allowed: 3, Rejected: 1}, s.plugin.Stats())
	})
}

func TestServer_LayersOverASlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Slow{Store: core.Must(coreratelimit.NewMemory(0)), Delay: time.Second}
		s := serve(t, ratelimit.ServerConfig{Store: store, MaxWait: time.Second / 2, Layers: []ratelimit.Layer{{Name: "all"}}})
		require.Equal(t, 200, fetch(s, "/").Code, "the store is waited for, as without layers")
	})
}

// Several limits are waited for in turn, and MaxWait is for all of them together.
func TestServer_WaitsForLayers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{
			Limit: ratelimit.FixedWindow(1, 6*time.Second), MaxWait: 10 * time.Second, Key: server.Header("User"),
			Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.TokenBucket(1, 8*time.Second, 1)}},
		})
		start := time.Now()
		require.Equal(t, 200, fetch(s, "/", "User", "a").Code)
		require.Equal(t, 200, fetch(s, "/", "User", "a").Code)
		require.Equal(t, 8*time.Second, time.Since(start), "6 for the one, and 2 more for the other")
		var first sync.WaitGroup
		first.Go(func() { fetch(s, "/", "User", "b") })
		synctest.Wait()
		w := fetch(s, "/", "User", "c")
		require.Equal(t, 429, w.Code, "it would be 16 seconds")
		require.Equal(t, "16", w.Header().Get("Retry-After"))
		require.Equal(t, 8*time.Second, time.Since(start), "which is known at once")
		result, err := s.plugin.Limiter().Peek(t.Context(), "c")
		require.NoError(t, err)
		require.EqualValues(t, 1, result.Remaining, "and took nothing")
		first.Wait()

		both := serve(t, ratelimit.ServerConfig{
			Limit: ratelimit.FixedWindow(1, 6*time.Second), MaxWait: 10 * time.Second, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.TokenBucket(1, 12*time.Second, 1)}},
		})
		fetch(both, "/")
		start = time.Now()
		w = fetch(both, "/")
		require.Equal(t, 429, w.Code, "6 for the one, and 6 more for the other")
		require.Equal(t, "6", w.Header().Get("Retry-After"))
		require.Equal(t, 6*time.Second, time.Since(start), "when that is known")
		require.EqualValues(t, 1, left(t, both, ip), "which was given back")

		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		require.Equal(t, 503, do(s, request(http.MethodGet, "/", "User", "d").WithContext(ctx)).Code, "the wait ends with the client")
		result, err = s.plugin.Limiter().Peek(t.Context(), "d")
		require.NoError(t, err)
		require.EqualValues(t, 1, result.Remaining)
	})
}
