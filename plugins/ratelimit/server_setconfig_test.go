package ratelimit_test

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

func TestServerSetConfigKeepsTheUsageOfKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		base := ratelimit.ServerConfig{
			Name: "api", Registry: registry, Limit: ratelimit.TokenBucket(4, time.Hour, 4), Headers: ratelimit.HeaderDraft10,
			Routes: []ratelimit.Route{{Pattern: "/export", Limit: ratelimit.TokenBucket(2, time.Hour, 2)}},
			Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.TokenBucket(10, time.Hour, 10)}},
		}
		s := serve(t, base)
		for range 3 {
			require.Equal(t, 200, fetch(s, "/").Code)
		}
		require.Equal(t, 200, fetch(s, "/export").Code)

		next := with(base, func(c *ratelimit.ServerConfig) {
			c.Limit = ratelimit.TokenBucket(6, time.Hour, 6)
			c.Routes[0].Limit = ratelimit.TokenBucket(3, time.Hour, 3)
			c.Routes = append(c.Routes, ratelimit.Route{Pattern: "/new", Limit: ratelimit.TokenBucket(1, time.Hour, 1)})
			c.Layers[0].Limit = ratelimit.TokenBucket(20, time.Hour, 20)
			c.Headers |= ratelimit.HeaderDraft03
		})
		require.NoError(t, s.plugin.SetConfig(next))
		require.Equal(t, next, s.plugin.Config())
		w := fetch(s, "/")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"api";q=6;w=3600, "all";q=20;w=3600`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, "6", w.Header().Get("RateLimit-Limit"), "a new style")
		require.NotEqual(t, "5", w.Header().Get("RateLimit-Remaining"), "the usage of the key counts")
		w = fetch(s, "/export")
		require.Equal(t, `"/export";q=3;w=3600, "all";q=20;w=3600`, w.Header().Get("RateLimit-Policy"))
		require.NotEqual(t, "2", w.Header().Get("RateLimit-Remaining"), "the usage of the route counts")
		require.Equal(t, 200, fetch(s, "/new").Code)
		require.Equal(t, 429, fetch(s, "/new").Code, "a new route has permits of its own")

		require.NoError(t, s.plugin.SetConfig(ratelimit.ServerConfig{Limit: ratelimit.PerHour(2), Tier: func(r *http.Request) ratelimit.Limit {
			if r.Header.Get("Gold") != "" {
				return ratelimit.PerHour(100)
			}
			return ratelimit.Limit{}
		}, Key: server.Header("User")}))
		require.Equal(t, "api", s.plugin.Config().Name)
		require.Same(t, registry, s.plugin.Config().Registry)
		require.Empty(t, fetch(s, "/", "User", "ann").Header().Values("RateLimit-Policy"))
		require.Equal(t, 200, fetch(s, "/export", "User", "ann").Code, "its own route is gone")
		require.Equal(t, 429, fetch(s, "/", "User", "ann").Code)
		require.Equal(t, 200, fetch(s, "/", "User", "ann", "Gold", "1").Code, "a new tier")
	})
}

func TestServerSetConfigRefuses(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	base := ratelimit.ServerConfig{Name: "api", Registry: registry, Limit: ratelimit.PerHour(1)}
	s := serve(t, base)
	other := core.Must(coreratelimit.NewMemory(0))
	for want, bad := range map[string]ratelimit.ServerConfig{
		"ratelimit.ServerConfig.Name = other: must stay api":                                {Name: "other"},
		"ratelimit.ServerConfig.Registry = another one: must stay the same":                 {Registry: &core.Registry{}},
		"ratelimit.ServerConfig.Store = another one: must stay as it is":                    {Store: other},
		"ratelimit.ServerConfig.MaxKeys = 7: must stay as it is":                            {MaxKeys: 7},
		"ratelimit.ServerConfig.Limit = -1/1h: must have":                                   {Limit: ratelimit.PerHour(-1)},
		"ratelimit.ServerConfig.Routes[0].Limit = -1/1h: must have":                         {Routes: []ratelimit.Route{{Pattern: "/", Limit: ratelimit.PerHour(-1)}}},
		`ratelimit.ServerConfig.Layers[0].Name = "api": must not be the name of the plugin`: {Layers: []ratelimit.Layer{{Name: "api"}}},
	} {
		err := s.plugin.SetConfig(bad)
		require.ErrorIs(t, err, core.ErrConfig)
		require.ErrorContains(t, err, want)
		require.Equal(t, base, s.plugin.Config())
	}
	require.Equal(t, 200, fetch(s, "/").Code)
	require.Equal(t, 429, fetch(s, "/").Code)
	require.NoError(t, s.plugin.Close())
	require.NoError(t, s.plugin.Close())
}

func TestARequestKeepsTheConfigThatItBeganWith(t *testing.T) {
	t.Parallel()
	var s *served
	s = charging(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(9), Headers: ratelimit.HeaderDraft03}, func(_ http.ResponseWriter, _ *http.Request, c *ratelimit.Charge) {
		if err := s.plugin.SetConfig(ratelimit.ServerConfig{Limit: ratelimit.PerHour(9), Shadow: true}); err != nil {
			t.Error(err)
		}
		require.False(t, mustTake(t, c, 100).Allowed)
	})
	w := fetch(s, "/")
	require.Equal(t, "8", w.Header().Get("RateLimit-Remaining"))
}

func TestServerSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1 << 20)})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				if i == 0 {
					limit := ratelimit.PerHour(int64(1<<20 + n%2))
					if err := s.plugin.SetConfig(ratelimit.ServerConfig{Limit: limit, Routes: []ratelimit.Route{{Pattern: "/" + strconv.Itoa(n%3), Limit: limit}}}); err != nil {
						t.Error(err)
					}
				}
				if w := fetch(s, "/1"); w.Code != 200 {
					t.Error(w.Code)
				}
			}
		})
	}
	all.Wait()
}

func TestServerOverride(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(10), Headers: ratelimit.HeaderDraft03, Weight: cost,
		Routes: []ratelimit.Route{{Pattern: "/export", Limit: ratelimit.PerHour(5), Weight: func(*http.Request) (int64, error) { return 2, nil }}},
	})
	other := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10)})
	with := func(path string, fs ...func(*ratelimit.ServerCall)) *http.Request {
		r := request(http.MethodGet, path)
		r.Header.Set("Cost", "1")
		for _, f := range fs {
			r = r.WithContext(s.plugin.Override(r.Context(), f))
		}
		return r
	}
	off := func(c *ratelimit.ServerCall) { c.Disabled = true }
	weight := func(n int64) func(*ratelimit.ServerCall) {
		return func(c *ratelimit.ServerCall) { c.Weight = func(*http.Request) (int64, error) { return n, nil } }
	}

	w := do(s, with("/", off))
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header())
	require.Equal(t, ratelimit.ServerStats{}, s.plugin.Stats())
	require.Equal(t, "9", do(s, with("/", off, func(c *ratelimit.ServerCall) { c.Disabled = false })).Header().Get("RateLimit-Remaining"), "the innermost is last")
	require.Equal(t, "6", do(s, with("/", weight(3))).Header().Get("RateLimit-Remaining"))
	require.Equal(t, "5", do(s, with("/", weight(3), func(c *ratelimit.ServerCall) { c.Weight = nil })).Header().Get("RateLimit-Remaining"))
	require.Equal(t, "9", do(s, with("/", func(c *ratelimit.ServerCall) {
		c.Key = func(*http.Request) (string, bool) { return "ann", true }
	})).Header().Get("RateLimit-Remaining"), "another key")
	require.EqualValues(t, 9, left(t, s, "ann"))
	require.Equal(t, "3", do(s, with("/export", func(*ratelimit.ServerCall) {})).Header().Get("RateLimit-Remaining"), "the route has its weight")
	require.Equal(t, "2", do(s, with("/export", weight(1))).Header().Get("RateLimit-Remaining"))
	require.Equal(t, "4", do(s, with("/", nil)).Header().Get("RateLimit-Remaining"))

	w = do(s, with("/", func(c *ratelimit.ServerCall) { c.Key = server.User }))
	require.Equal(t, 403, w.Code)
	w = do(s, with("/", func(c *ratelimit.ServerCall) {
		c.Weight = func(*http.Request) (int64, error) { return 0, errors.New("broken") }
	}))
	require.Equal(t, 500, w.Code)
	require.EqualValues(t, 4, left(t, s, ip))

	do(other, with("/", off))
	require.EqualValues(t, 9, left(t, other, ip), "another plugin is not changed")
}
