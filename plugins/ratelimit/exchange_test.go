package ratelimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// Whatever a limit needs to know of a take to give it back, the request keeps.
func TestCharge_RefundByEveryLimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]ratelimit.Limit{
		"bucket":   ratelimit.TokenBucket(10, time.Hour, 10),
		"window":   ratelimit.FixedWindow(10, time.Hour),
		"sliding":  ratelimit.SlidingWindow(10, time.Hour, 10),
		"counter":  ratelimit.SlidingCounter(10, time.Hour),
		"log":      ratelimit.SlidingLog(10, time.Hour),
		"two":      ratelimit.PerMinute(9).And(ratelimit.PerHour(10)),
		"the last": ratelimit.PerHour(10).And(ratelimit.PerMinute(11).And(ratelimit.SlidingLog(12, time.Second))),
	} {
		for _, wait := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.ServerConfig{Limit: limit, MaxWait: wait, Weight: cost, Headers: ratelimit.HeaderDraft10}
				s := charging(t, cfg, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
					require.NoError(t, c.Refund(r.Context()))
				})
				key, limiter := "192.0.2.1", s.plugin.Limiter()
				core.Must(limiter.Take(t.Context(), key, 1))
				want := core.Must(limiter.Peek(t.Context(), key)).Remaining
				require.Equal(t, 200, fetch(s, "/", "Cost", "8").Code)
				for range want { // of each limit there is as much as before
					require.True(t, core.Must(limiter.Take(t.Context(), key, 1)).Allowed, "%s, %v", name, wait)
				}
			})
		}
	}
}

// What was refused in Shadow took nothing, and can give nothing back.
func TestCharge_RefundOfWhatShadowHasLetPass(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(3), Shadow: true, Weight: cost}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		if r.Header.Get("Cost") == "2" {
			require.NoError(t, c.Refund(r.Context()))
			require.EqualValues(t, 1, core.Must(c.Take(r.Context(), 0)).Remaining)
		}
	})
	fetch(s, "/", "Cost", "1")
	fetch(s, "/", "Cost", "1")
	fetch(s, "/", "Cost", "2")
}

// A request that Allow lets pass has no limit to tell of, also after a 103: it panicked.
func TestHeaders_AllowListedAfterAnInformationalResponse(t *testing.T) {
	t.Parallel()
	s, err := ratelimit.NewServer(ratelimit.ServerConfig{Headers: allHeaders, Allow: func(*http.Request) bool { return true }})
	require.NoError(t, err)
	w := fetch(s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header()) // as httputil.ReverseProxy does
		w.WriteHeader(http.StatusNoContent)
	})), "/")
	require.Equal(t, http.Header{"X-Rate-Limited": {"false"}}, w.Header())
	require.NoError(t, s.Close())
}

// Not parallel: it counts allocations.
func TestServer_RefusedRequestAllocatesAtMostThreeTimes(t *testing.T) {
	for name, cfg := range map[string]ratelimit.ServerConfig{
		"no headers":  {Limit: ratelimit.PerHour(1)},
		"all headers": {Limit: ratelimit.PerHour(1), Headers: allHeaders},
	} {
		plugin := core.Must(ratelimit.NewServer(cfg))
		h, w, r := plugin.Handler(http.HandlerFunc(quick)), &sink{header: http.Header{}}, request(http.MethodGet, "/")
		h.ServeHTTP(w, r)
		require.LessOrEqual(t, mallocsOf(t, 10_000, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}), 3.1, name)
		require.Equal(t, []string{"true"}, w.header["X-Rate-Limited"], name)
		require.NoError(t, plugin.Close())
	}
}

// What is done to the values of one response changes no other, nor other fields.
func TestHeaders_ValuesAreNotShared(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(2), Headers: everyHeader, Key: func(*http.Request) (string, bool) { return "all", true }})
	var want []http.Header
	for range 2 {
		for range 3 {
			w := fetch(s, "/")
			want = append(want, w.Header().Clone())
			for field, lines := range w.Header() {
				require.Len(t, lines, 1, field)
				_ = append(lines, "appended")
				lines[0] = "changed"
			}
			for field, lines := range w.Header() {
				require.Equal(t, []string{"changed"}, lines, field)
			}
		}
		require.NoError(t, s.plugin.Limiter().Reset(t.Context(), "all"))
	}
	for i := range 3 {
		require.NotEmpty(t, want[i]["X-Rate-Limited"])
		for _, field := range []string{"X-Rate-Limited", "Ratelimit-Policy", "Ratelimit-Limit", "X-Ratelimit-Remaining", "Content-Type", "Cache-Control"} {
			require.Equal(t, want[i][field], want[i+3][field], field)
		}
	}
}
