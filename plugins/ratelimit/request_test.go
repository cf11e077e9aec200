package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
	"github.com/gresil/gresil/stores/redisstore"
)

func TestWeight(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit int64
		costs []string
		want  []int
	}{
		{3, []string{"0", "0", "0", "0"}, []int{200, 200, 200, 200}},
		{3, []string{"1", "1", "1", "1", "0"}, []int{200, 200, 200, 429, 200}},
		{3, []string{"2", "2", "1"}, []int{200, 429, 200}},
		{3, []string{"4", "3"}, []int{413, 200}},
		{3, []string{"-1", "3", "0", "4"}, []int{500, 200, 200, 413}},
	} {
		s := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(tt.limit)}, ratelimit.ServerOptions{Weight: cost})
		for i, c := range tt.costs {
			w := fetch(s, "/", "Cost", c)
			require.Equal(t, tt.want[i], w.Code, "limit %d, costs %v", tt.limit, tt.costs)
			require.Equal(t, w.Code == 429, w.Header().Get("Retry-After") != "", "a cost that never fits has no Retry-After")
		}
	}
}

func TestKey_Missing(t *testing.T) {
	t.Parallel()
	cfg, opts := ratelimit.Config{Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{Key: server.Header("User")}
	s := serve(t, cfg, opts)
	require.Equal(t, 403, from(s, "192.0.2.1:1"))
	require.Equal(t, 200, from(s, "192.0.2.1:1", "User", "ann"))
	require.EqualValues(t, 1, s.calls.Load())
	opts.Key = server.FirstOf(opts.Key, server.ClientIP)
	s = serve(t, cfg, opts)
	require.Equal(t, 200, from(s, "192.0.2.1:1"))
	require.Equal(t, 429, from(s, "192.0.2.1:2"))
	require.Equal(t, 200, from(s, "192.0.2.1:1", "User", ip), "a user with such a name is another key")
	require.Equal(t, 403, from(s, "@"), "neither")
}

// Whatever a user is called, nobody else's permits are taken: each of these has one permit of each limit.
func TestKeys_Apart(t *testing.T) {
	t.Parallel()
	one := ratelimit.PerHour(1)
	s := serve(t, ratelimit.Config{Limit: one, Limits: map[string]ratelimit.Limit{"export": one, "tenant": one, "all": ratelimit.PerHour(1000)}}, ratelimit.ServerOptions{
		Key:    func(r *http.Request) (string, bool) { return r.Header.Get("User"), true },
		Routes: []ratelimit.Route{{Pattern: "/export", Limit: "export"}, {Pattern: "/tenant", Limit: "tenant"}},
		Layers: []ratelimit.Layer{{Limit: "tenant", Key: server.Header("Tenant")}, {Limit: "all"}},
	})
	respond := func(p *ratelimit.Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.Respond(w, r, r.Header.Get("User"), 1) })
	}
	names := []string{
		"", ip, "export", "tenant", "all", "/export", "#", "#ann", "#limit:export:", "#limit:export:ann", "#layer:tenant:", "#layer:tenant:ann", "#all:all", "#respond::ann",
		"#respond:#limit:export:ann", "#limit:export:#", "#key:#", "#key:#ann", "0:ann", "1:" + ip, "ann", ":ann", "export:ann", "limit:export:ann",
	}
	for round, want := range []int{200, 429} {
		for i, name := range names {
			get := func(h http.Handler, target string, header ...string) {
				require.Equal(t, want, fetch(h, target, header...).Code, "%q at %s, round %d", name, target, round)
			}
			get(s, "/", "User", name)
			get(s, "/export", "User", name)
			get(s, "/tenant", "User", name)
			get(respond(s.plugin), "/", "User", name)
			get(respond(s.plugin.Named("export")), "/", "User", name)
			if name != "" {
				get(s, "/", "User", fmt.Sprintf("member %d.%d", round, i), "Tenant", name)
			}
		}
	}
}

// Stores bound the number of keys, so their length must not be the choice of a client.
func TestKeys_Long(t *testing.T) {
	t.Parallel()
	one := ratelimit.PerHour(1)
	keys := map[string]bool{}
	s := serve(t, ratelimit.Config{Limit: one, Limits: map[string]ratelimit.Limit{"tenant": one}}, ratelimit.ServerOptions{
		Key: server.Header("User"), Layers: []ratelimit.Layer{{Limit: "tenant", Key: server.Header("Tenant")}},
		OnRejected: func(_ http.ResponseWriter, _ *http.Request, rej server.Rejection) {
			limited, _ := errors.AsType[*ratelimit.LimitedError](rej.Err)
			keys[limited.Key] = true
		},
	})
	respond := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.plugin.Respond(w, r, r.Header.Get("User"), 1) })
	long := strings.Repeat("k", 1<<16)
	for round, want := range []int{200, 429} {
		for _, name := range []string{long + "a", long + "b"} {
			require.Equal(t, want, fetch(s, "/", "User", name).Code)
			require.Equal(t, want, fetch(respond, "/", "User", name).Code)
			require.Equal(t, want, fetch(s, "/", "User", fmt.Sprint(round, name[1<<16:]), "Tenant", name).Code)
		}
	}
	require.Len(t, keys, 6)
	for key := range keys {
		require.Less(t, len(key), 256)
	}
}

func TestLayers_Order(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{
		Limit: ratelimit.PerHour(10), Limits: map[string]ratelimit.Limit{"tenant": ratelimit.PerHour(20), "all": ratelimit.PerHour(5), "route": ratelimit.PerHour(2)},
	}, ratelimit.ServerOptions{
		Key: server.Header("User"), Weight: cost, XRateLimit: true,
		Layers: []ratelimit.Layer{{Limit: "tenant", Key: server.Header("Tenant")}, {Limit: "all"}},
		Routes: []ratelimit.Route{{Pattern: "/route", Limit: "route"}},
	})
	left := func() [3]int64 {
		return [3]int64{s.left(t, "ann"), s.left(t, "#layer:tenant:x", "tenant"), s.left(t, "#all:all", "all")}
	}
	get := func(target, cost string) int {
		return fetch(s, target, "User", "ann", "Tenant", "x", "Cost", cost).Code
	}
	require.Equal(t, 200, get("/", "4"))
	require.Equal(t, 429, get("/", "2"), "all have one left")
	require.Equal(t, 413, get("/", "6"), "more than all ever have")
	require.Equal(t, [3]int64{6, 16, 1}, left(), "what the last one refused is refunded")
	require.Equal(t, 429, get("/", "7"))
	require.Equal(t, [3]int64{6, 16, 1}, left(), "what the first one refused never reached the others")
	require.Equal(t, 200, fetch(s, "/route", "User", "ann", "Cost", "1").Code, "without a tenant; routes are under layers too")
	require.Equal(t, [3]int64{6, 16, 0}, left())
	w := fetch(s, "/route", "User", "bob", "Cost", "1")
	require.Equal(t, 429, w.Code)
	require.Equal(t, "5", w.Header().Get("X-RateLimit-Limit"), "the fields are about the limit that refused")
	require.Contains(t, w.Body.String(), `"violated-policies":["all"]`)
	require.EqualValues(t, 2, s.left(t, "#limit:route:bob", "route"))
}

// A Layer whose name SetConfig has removed does not apply: Config.Limit, which is that of a key, would be that of all clients together.
func TestLayers_RemovedName(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.Config{Limit: ratelimit.PerHour(3), Limits: map[string]ratelimit.Limit{"all": ratelimit.PerHour(4)}}
	s := serve(t, cfg, ratelimit.ServerOptions{Key: server.Header("User"), Weight: cost, Layers: []ratelimit.Layer{{Limit: "all"}}})
	get := func(user, cost string) int { return fetch(s, "/", "User", user, "Cost", cost).Code }
	require.Equal(t, 200, get("ann", "1"))
	require.NoError(t, s.limits.SetConfig(ratelimit.Config{Limit: cfg.Limit}))
	require.Equal(t, 200, get("bob", "3"))
	require.Equal(t, 429, get("bob", "1"))
	require.NoError(t, s.limits.SetConfig(cfg))
	require.Equal(t, 200, get("cid", "3"), "it took nothing meanwhile")
	require.Equal(t, 429, get("ann", "1"), "and applies again")
}

// The limiter of a plugin can be a view, and a Layer can have the name of that view.
func TestLayers_OfView(t *testing.T) {
	t.Parallel()
	limits := core.Must(ratelimit.New(ratelimit.Config{Limits: map[string]ratelimit.Limit{"all": ratelimit.PerHour(1)}}))
	s := core.Must(ratelimit.NewServer(limits.Under("all"), ratelimit.ServerOptions{Key: server.Header("User"), Layers: []ratelimit.Layer{{Limit: "all"}}}))
	h := s.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i, user := range []string{"ann", "bob"} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("User", user)
		h.ServeHTTP(w, r)
		require.Equal(t, []int{200, 429}[i], w.Code, user)
	}
}

// A request that may be of several Routes takes the highest of their weights from each layer.
func TestLayers_HighestWeight(t *testing.T) {
	t.Parallel()
	weighs := func(n int64) func(*http.Request) (int64, error) {
		return func(*http.Request) (int64, error) { return n, nil }
	}
	for _, weights := range [][2]int64{{1, 3}, {3, 1}, {0, 3}} {
		s := serve(t, ratelimit.Config{Limits: map[string]ratelimit.Limit{"all": ratelimit.PerHour(10), "a": ratelimit.PerHour(20)}}, ratelimit.ServerOptions{
			Layers: []ratelimit.Layer{{Limit: "all"}},
			Routes: []ratelimit.Route{
				{Pattern: "/list", Limit: "a", Weight: weighs(weights[0])},
				{Pattern: "/list.json", Weight: weighs(weights[1])},
			},
		})
		require.Equal(t, 200, fetch(s, "/list.json").Code)
		require.EqualValues(t, 10-3, s.left(t, "#all:all", "all"), weights)
	}
}

// Several limits are waited for in turn, and MaxWait is for all of them together.
func TestLayers_Wait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts := ratelimit.ServerOptions{Wait: true, Key: server.Header("User"), Layers: []ratelimit.Layer{{Limit: "all"}}}
		layer := func(every time.Duration) map[string]ratelimit.Limit {
			return map[string]ratelimit.Limit{"all": ratelimit.TokenBucket(1, every, 1)}
		}
		s := serve(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1, 6*time.Second), Limits: layer(8 * time.Second)}, opts)
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
		require.EqualValues(t, 1, s.left(t, "c"), "and took nothing")
		first.Wait()

		both := serve(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1, 6*time.Second), Limits: layer(12 * time.Second)}, opts)
		fetch(both, "/", "User", "a")
		start = time.Now()
		w = fetch(both, "/", "User", "a")
		require.Equal(t, 429, w.Code, "6 for the one, and 6 more for the other")
		require.Equal(t, 6*time.Second, time.Since(start), "when that is known")
		require.EqualValues(t, 1, both.left(t, "a"), "which is refunded")

		patient := request(http.MethodGet, "/", "User", "b")
		patient = patient.WithContext(both.limits.Override(t.Context(), func(c *ratelimit.Config) { c.MaxWait = time.Minute }))
		require.Equal(t, 200, do(both, patient).Code)
		start = time.Now()
		require.Equal(t, 200, do(both, patient).Code, "an override of MaxWait counts")
		require.Equal(t, 12*time.Second, time.Since(start))
	})
}

// An unrefunded store is one whose refunds fail.
type unrefunded struct{ coreratelimit.Store }

type unrefundedTable struct{ limits.Table }

func (s unrefunded) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return unrefundedTable{t}, err
}

func (t unrefundedTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	if op.Kind == limits.Refund {
		return limits.Result{}, errDown
	}
	return t.Table.Apply(ctx, key, plan, op)
}

func TestLayers_StoreFails(t *testing.T) {
	t.Parallel()
	opts := ratelimit.ServerOptions{Layers: []ratelimit.Layer{{Limit: "all"}}, XRateLimit: true, RateLimit: true}
	cfg := ratelimit.Config{Name: "api", Limits: map[string]ratelimit.Limit{"all": ratelimit.PerMinute(1)}, Store: unrefunded{&ratelimittest.Memory{}}}
	s := serve(t, cfg, opts)
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code, "a refund that fails changes no answer")
	opts.Weight = cost
	for _, wait := range []bool{false, true} {
		opts.Wait = wait
		cfg.Store, cfg.OnStoreError = brokenStore{}, ratelimit.Allow
		for _, n := range []string{"0", "1"} {
			w := fetch(serve(t, cfg, opts), "/", "Cost", n)
			require.Equal(t, 200, w.Code, "a request that costs %s", n)
			require.Empty(t, w.Header(), "no field that lies")
		}
		cfg.OnStoreError = ratelimit.Deny
		w := fetch(serve(t, cfg, opts), "/")
		require.Equal(t, 503, w.Code)
		require.NotContains(t, w.Body.String(), "10.0.0.5")
		require.Empty(t, w.Header().Get("X-Rate-Limited"))
	}
}

// One IP floods at 100 times its limit, beside 20 clients at half of theirs, under a layer of twice the limit of one: no other client
// is refused while the layer has permits, and the flood gets no more of them than its own limit.
func TestLayers_Flood(t *testing.T) {
	t.Parallel()
	const limit = 20
	flood := func(t *testing.T, store coreratelimit.Store) {
		t.Helper()
		s := serve(t, ratelimit.Config{
			Name: "flood", Store: store, OnStoreError: ratelimit.Deny, Limit: ratelimit.FixedWindow(limit, time.Hour), Limits: map[string]ratelimit.Limit{"all": ratelimit.FixedWindow(2*limit, time.Hour)},
		}, ratelimit.ServerOptions{Layers: []ratelimit.Layer{{Limit: "all"}}})
		flooded, others := 0, 0
		for turn := range limit / 2 * 20 {
			for range 10 {
				if from(s, "203.0.113.1:1") == 200 {
					flooded++
				}
			}
			if from(s, fmt.Sprintf("198.51.100.%d:1", turn%20)) == 200 {
				others++
			} else {
				require.Zero(t, s.left(t, "#all:all", "all"), "refused with permits left")
			}
		}
		require.LessOrEqual(t, flooded, limit)
		require.Equal(t, 2*limit, flooded+others, "no permit of the layer is lost")
	}
	t.Run("memory", func(t *testing.T) { t.Parallel(); flood(t, nil) })
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
		t.Cleanup(func() { _ = client.Close() })
		store := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Minute}))
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		flood(t, store)
	})
}
