package ratelimit_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

func TestPolicy_Joined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Name: "api", Limit: ratelimit.PerSecond(2).And(ratelimit.PerHour(3))}, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true})
		w := fetch(s, "/")
		require.Equal(t, []string{`"api-1s";q=2;w=1, "api-1h";q=3;w=3600`}, w.Header().Values("RateLimit-Policy"))
		require.Equal(t, []string{`"api-1s";r=1;t=1`}, w.Header().Values("RateLimit"), "the one that counts")
		require.Equal(t, "2", w.Header().Get("X-RateLimit-Limit"))
		time.Sleep(time.Second)
		require.Equal(t, 200, fetch(s, "/").Code)
		time.Sleep(time.Second)
		for _, code := range []int{200, 429} {
			w = fetch(s, "/")
			require.Equal(t, code, w.Code)
			require.Equal(t, []string{`"api-1h";r=0;t=3598`}, w.Header().Values("RateLimit"))
		}
		require.Equal(t, "3598", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"violated-policies":["api-1h"]`)

		s = serve(t, ratelimit.Config{
			Name: "api", Limit: ratelimit.PerMinute(9).And(ratelimit.TokenBucket(5, time.Minute, 5)).And(ratelimit.FixedWindow(4, 90*time.Second)).And(ratelimit.FixedWindow(3, 300*time.Microsecond)),
		}, ratelimit.ServerOptions{RateLimit: true})
		require.Equal(t, `"api-1m";q=9;w=60, "api-1m-2";q=5;w=60, "api-1m30s";q=4;w=90, "api-300us";q=3`, fetch(s, "/").Header().Get("RateLimit-Policy"))
	})
}

// A limit that is changed, or that one key has for itself, is sent as it is.
func TestPolicy_Changes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Minute, 10)}
		s := serve(t, cfg, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true, Key: server.Header("User")})
		require.NoError(t, s.limits.SetKeyLimit("ann", ratelimit.TokenBucket(2, time.Second, 2)))
		w := fetch(s, "/", "User", "ann")
		require.Equal(t, `"default";q=2;w=1`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, `"default";r=1;t=1`, w.Header().Get("RateLimit"))
		require.Equal(t, "2", w.Header().Get("X-RateLimit-Limit"))
		r := request("GET", "/", "User", "eve")
		ctx := s.limits.Override(r.Context(), func(c *ratelimit.Config) { c.Limit = ratelimit.PerHour(5).And(ratelimit.PerMinute(2)) })
		w = do(s, r.WithContext(ctx))
		require.Equal(t, `"default-1h";q=5;w=3600, "default-1m";q=2;w=60`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, `"default-1m";r=1;t=60`, w.Header().Get("RateLimit"))
		for _, n := range []int64{20, 20, 30} {
			cfg.Limit = ratelimit.TokenBucket(n, time.Minute, n)
			require.NoError(t, s.limits.SetConfig(cfg))
			require.Equal(t, fmt.Sprintf(`"default";q=%d;w=60`, n), fetch(s, "/", "User", "bob").Header().Get("RateLimit-Policy"))
		}
	})
}

// The body is the same for each wait, which the header has.
func TestPolicy_OneBody(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"application/json", "text/plain"} {
		bodies := map[string]bool{}
		for _, limit := range []ratelimit.Limit{ratelimit.PerMinute(1), ratelimit.PerHour(1), ratelimit.TokenBucket(1, 1<<40, 1)} {
			s := serve(t, ratelimit.Config{Limit: limit}, ratelimit.ServerOptions{})
			fetch(s, "/")
			w := fetch(s, "/", "Accept", accept)
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.NotEmpty(t, w.Header().Get("Retry-After"))
			bodies[w.Body.String()] = true
		}
		require.Len(t, bodies, 1)
	}
}

func TestPolicy_Names(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Name: `a"b\c`}, ratelimit.ServerOptions{RateLimit: true})
	require.Equal(t, `"a\"b\\c";q=1000;w=60`, fetch(s, "/").Header().Get("RateLimit-Policy"))
	limits := map[string]ratelimit.Limit{"a": ratelimit.PerHour(5), "a-2": ratelimit.PerHour(7), "b": ratelimit.PerHour(9)}
	s = serve(t, ratelimit.Config{Name: "a", Limits: limits}, ratelimit.ServerOptions{RateLimit: true, Layers: []ratelimit.Layer{{Limit: "a-2"}, {Limit: "a"}, {Limit: "b"}}})
	w := fetch(s.plugin.Named("a").Handler(s), "/")
	require.Equal(t, []string{`"a";q=5;w=3600`, `"a-2";q=1000;w=60, "a-2-2";q=7;w=3600, "a-3";q=5;w=3600, "b";q=9;w=3600`}, w.Header().Values("RateLimit-Policy"))
	require.Equal(t, []string{`"a";r=4;t=3600`, `"a-2";r=999;t=60, "a-2-2";r=6;t=3600, "a-3";r=4;t=3600, "b";r=8;t=3600`}, w.Header().Values("RateLimit"))
	under := core.Must(ratelimit.NewServer(s.limits.Under("b"), ratelimit.ServerOptions{RateLimit: true}))
	require.Equal(t, `"b";q=9;w=3600`, fetch(under.Handler(s.handler()), "/").Header().Get("RateLimit-Policy"))
	s = serve(t, ratelimit.Config{Name: "naïve"}, ratelimit.ServerOptions{XRateLimit: true})
	require.Equal(t, "1000", fetch(s, "/").Header().Get("X-RateLimit-Limit"))
}
