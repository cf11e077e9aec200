package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func TestFields_Chosen(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		opts := ratelimit.ServerOptions{NoXRateLimited: i&1 != 0, XRateLimit: i&2 != 0, RateLimit: i&4 != 0}
		var want []string
		if !opts.NoXRateLimited {
			want = append(want, "X-Rate-Limited")
		}
		if opts.XRateLimit {
			want = append(want, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset")
		}
		if opts.RateLimit {
			want = append(want, "Ratelimit", "Ratelimit-Policy")
		}
		s := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(1)}, opts)
		var got []string
		for name, values := range fetch(s, "/").Header() {
			got = append(got, name)
			require.Len(t, values, 1)
		}
		require.ElementsMatch(t, want, got)
		refused := fetch(s, "/").Header()
		for _, name := range append(want, "Retry-After", "Content-Type", "Cache-Control") {
			require.NotEmpty(t, refused[name], name)
		}
		require.Len(t, refused, len(want)+3)
	}
}

func TestFields_Remaining(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Limit: ratelimit.PerHour(5)}, ratelimit.ServerOptions{Weight: cost, XRateLimit: true, RateLimit: true})
		for i, tt := range []struct{ cost, remaining string }{{"2", "3"}, {"2", "1"}, {"1", "0"}, {"2", "0"}, {"10", "0"}, {"1", "0"}} {
			w := fetch(s, "/", "Cost", tt.cost)
			require.Equal(t, tt.remaining, w.Header().Get("X-RateLimit-Remaining"), i)
			require.Equal(t, strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), w.Header().Get("X-RateLimit-Reset"))
			require.Equal(t, `"default";r=`+tt.remaining+`;t=3600`, w.Header().Get("RateLimit"))
		}
	})
}

func TestFields_ResetRoundedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1, 1500*time.Millisecond)}, ratelimit.ServerOptions{XRateLimit: true})
		start := time.Now() // midnight
		for i, tt := range []struct {
			pause time.Duration
			reset int64
		}{{time.Second, 3}, {1500 * time.Millisecond, 4}, {500 * time.Millisecond, 4}, {1600 * time.Millisecond, 7}} { // 4.6 + 1.5
			time.Sleep(tt.pause)
			w := fetch(s, "/")
			require.Equal(t, strconv.FormatInt(start.Unix()+tt.reset, 10), w.Header().Get("X-RateLimit-Reset"), i)
			require.Equal(t, []string{"1", "0"}, []string{w.Header().Get("X-RateLimit-Limit"), w.Header().Get("X-RateLimit-Remaining")})
		}
	})
}

// The usage of an hour of the clock ends with the hour, not with the first second after it: the decision takes some time.
func TestFields_ResetWithTheHour(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Limit: ratelimit.AlignedWindow(5, time.Hour)}, ratelimit.ServerOptions{XRateLimit: true})
	reset, err := strconv.ParseInt(fetch(s, "/").Header().Get("X-RateLimit-Reset"), 10, 64)
	require.NoError(t, err)
	require.Zero(t, reset%3600)
}

func TestFields_Draft10(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit             ratelimit.Limit
			cost              string
			policy, rateLimit string
		}{
			{ratelimit.TokenBucket(10, time.Second, 20), "1", `"default";q=20;w=2`, `"default";r=19;t=1`},
			{ratelimit.TokenBucket(3, 10*time.Second, 4), "2", `"default";q=4;w=14`, `"default";r=2;t=4`},
			{ratelimit.FixedWindow(5, 250*time.Millisecond), "5", `"default";q=5`, `"default";r=0;t=1`},
			{ratelimit.TokenBucket(1000, time.Second, 10), "1", `"default";q=10`, `"default";r=9;t=1`},
			{ratelimit.FixedWindow(5, 1500*time.Millisecond), "1", `"default";q=5;w=2`, `"default";r=4;t=2`},
			{ratelimit.TokenBucket(3, 6*time.Second+1, 1), "1", `"default";q=1;w=3`, `"default";r=0;t=3`}, // a third of a nanosecond too long for 2
			{ratelimit.PerHour(5), "0", `"default";q=5;w=3600`, `"default";r=5`},
			{ratelimit.TokenBucket(1<<38, 365*24*time.Hour, 1<<38), "0", `"default";q=274877906944;w=31536000`, `"default";r=274877906944`},
		} {
			s := serve(t, ratelimit.Config{Limit: tt.limit}, ratelimit.ServerOptions{Weight: cost, RateLimit: true})
			w := fetch(s, "/", "Cost", tt.cost)
			require.Equal(t, 200, w.Code)
			require.Equal(t, tt.policy, w.Header().Get("RateLimit-Policy"), tt.limit)
			require.Equal(t, tt.rateLimit, w.Header().Get("RateLimit"), tt.limit)
		}
	})
}

func TestFields_Layers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{
			Name: "api", Limit: ratelimit.PerMinute(10), Limits: map[string]ratelimit.Limit{"tenant": ratelimit.PerHour(2), "all": ratelimit.PerSecond(2)},
		}, ratelimit.ServerOptions{
			Key: server.Header("User"), XRateLimit: true, RateLimit: true,
			Layers: []ratelimit.Layer{{Limit: "tenant", Key: server.Header("Tenant")}, {Limit: "all"}},
		})
		w := fetch(s, "/", "User", "ann")
		require.Equal(t, []string{`"api";q=10;w=60, "all";q=2;w=1`}, w.Header().Values("RateLimit-Policy"), "no tenant, no layer")
		require.Equal(t, []string{`"api";r=9;t=60, "all";r=1;t=1`}, w.Header().Values("RateLimit"))
		require.Equal(t, "1", w.Header().Get("X-RateLimit-Remaining"), "the one with the fewest left")
		for range 2 {
			time.Sleep(time.Second)
			require.Equal(t, 200, fetch(s, "/", "User", "ann", "Tenant", "x").Code)
		}
		w = fetch(s, "/", "User", "ann", "Tenant", "x")
		require.Equal(t, 429, w.Code)
		require.Equal(t, `"tenant";q=2;w=3600`, w.Header().Get("RateLimit-Policy"), "the one that refused")
		require.Equal(t, `"tenant";r=0;t=3599`, w.Header().Get("RateLimit"))
		require.Equal(t, []string{"2", "0"}, []string{w.Header().Get("X-RateLimit-Limit"), w.Header().Get("X-RateLimit-Remaining")})
		require.Equal(t, "3599", w.Header().Get("Retry-After"))
		time.Sleep(3599 * time.Second)
		require.Equal(t, 200, fetch(s, "/", "User", "ann", "Tenant", "x").Code)
	})
}

// A client with no permit left learns when it has one of each limit.
func TestFields_Tie(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := []ratelimit.Limit{ratelimit.PerSecond(1), ratelimit.PerMinute(1)}
		for i := range limits {
			own, layer := limits[i], limits[1-i]
			for _, h := range []http.Handler{
				serve(t, ratelimit.Config{Limit: own, Limits: map[string]ratelimit.Limit{"all": layer}}, ratelimit.ServerOptions{XRateLimit: true, Layers: []ratelimit.Layer{{Limit: "all"}}}),
				serve(t, ratelimit.Config{Limit: own.And(layer)}, ratelimit.ServerOptions{XRateLimit: true}),
			} {
				require.Equal(t, strconv.FormatInt(time.Now().Add(time.Minute).Unix(), 10), fetch(h, "/").Header().Get("X-RateLimit-Reset"), "%v", own)
			}
		}
	})
}

func TestFields_Nested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opts := ratelimit.ServerOptions{XRateLimit: true, RateLimit: true}
		for _, cut := range []bool{false, true} {
			between := timeout.NewServer(nil, timeout.ServerOptions{Cut: cut})
			for _, tt := range []struct {
				outer, inner int64
				want         string
				reset        int64
			}{{10, 5, "5", 60}, {5, 10, "5", 3600}, {7, 7, "7", 3600}, {1, 5, "1", 3600}} {
				outer := serve(t, ratelimit.Config{Name: "outer", Limit: ratelimit.PerHour(tt.outer)}, opts)
				inner := serve(t, ratelimit.Config{Name: "inner", Limit: ratelimit.PerMinute(tt.inner)}, opts)
				w := fetch(outer.plugin.Handler(between.Handler(inner)), "/")
				require.Equal(t, []string{tt.want}, w.Header().Values("X-RateLimit-Limit"), "the one with fewer left")
				require.Equal(t, []string{strconv.FormatInt(time.Now().Unix()+tt.reset, 10)}, w.Header().Values("X-RateLimit-Reset"), "the outer one of two with as few")
				require.Equal(t, []string{"false"}, w.Header().Values("X-Rate-Limited"))
				require.Equal(t, []string{fmt.Sprintf(`"outer";q=%d;w=3600`, tt.outer), fmt.Sprintf(`"inner";q=%d;w=60`, tt.inner)}, w.Header().Values("RateLimit-Policy"))
				require.Len(t, w.Header().Values("RateLimit"), 2)
			}
			outer := serve(t, ratelimit.Config{Name: "outer", Limit: ratelimit.PerHour(2)}, opts)
			inner := serve(t, ratelimit.Config{Name: "inner", Limit: ratelimit.PerMinute(1)}, opts)
			h := outer.plugin.Handler(between.Handler(inner))
			require.Equal(t, 200, fetch(h, "/").Code)
			w := fetch(h, "/")
			require.Equal(t, 429, w.Code)
			require.Equal(t, []string{"true"}, w.Header().Values("X-Rate-Limited"))
			require.Equal(t, []string{"1"}, w.Header().Values("X-RateLimit-Limit"), "the one that refused")
			require.Equal(t, []string{`"outer";r=0;t=3600`, `"inner";r=0;t=60`}, w.Header().Values("RateLimit"))
		}
	})
}

// Whatever the handler does, the fields are there: on errors, on a 304, on the answer to a panic, on what a proxy passes on.
func TestFields_EveryResponse(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Name: "api"}, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true})
	for name, h := range map[string]http.Handler{
		"500":   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
		"304":   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }),
		"empty": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		"error": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) }),
		"panic": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }),
	} {
		recovered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if recover() != nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			s.plugin.Handler(h).ServeHTTP(w, r)
		})
		w := fetch(middleware.RequestID(recovered), "/")
		require.Equal(t, "false", w.Header().Get("X-Rate-Limited"), name)
		require.NotEmpty(t, w.Header().Get("RateLimit"), name)
		require.NotEmpty(t, w.Header().Get("X-RateLimit-Limit"), name)
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("RateLimit", `"upstream";r=1`) }))
	t.Cleanup(upstream.Close)
	proxy := httputil.NewSingleHostReverseProxy(core.Must(url.Parse(upstream.URL)))
	w := fetch(s.plugin.Handler(proxy), "/")
	require.Equal(t, `"upstream";r=1`, w.Header().Values("RateLimit")[1], "a list has an item of each")
}

// What is done to the values of one response changes no other, nor other fields.
func TestFields_NotShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Name: "api"}, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true})
		want := fetch(s, "/").Header()
		h := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range w.Header() {
				values[0] = "changed"
				w.Header()[name] = append(values, "more")
			}
		}))
		for name, values := range fetch(h, "/").Header() {
			require.Equal(t, []string{"changed", "more"}, values, name)
		}
		got := fetch(s, "/").Header()
		for _, name := range []string{"X-Rate-Limited", "X-Ratelimit-Limit", "X-Ratelimit-Reset", "Ratelimit-Policy"} {
			require.True(t, slices.Equal(want[name], got[name]), name)
		}
	})
}

// Whatever the limit, and however it is refused: Retry-After is rounded up, enough, and a second less would not be.
func TestRetryAfter_Enough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit ratelimit.Limit
			want  string
		}{
			{ratelimit.FixedWindow(1, 200*time.Millisecond), "1"}, {ratelimit.FixedWindow(1, 59400*time.Millisecond), "60"}, {ratelimit.TokenBucket(3, 10*time.Second, 1), "4"},
		} {
			s := serve(t, ratelimit.Config{Limit: tt.limit}, ratelimit.ServerOptions{})
			fetch(s, "/")
			require.Equal(t, tt.want, fetch(s, "/").Header().Get("Retry-After"), tt.limit)
		}
		for _, limit := range []ratelimit.Limit{
			ratelimit.PerMinute(3), ratelimit.TokenBucket(3, 10*time.Second, 5), ratelimit.SlidingWindow(4, 70*time.Second, 7), ratelimit.SlidingCounter(5, 33*time.Second),
			ratelimit.SlidingLog(3, 1700*time.Millisecond), ratelimit.AlignedWindow(3, time.Minute), ratelimit.PerSecond(3).And(ratelimit.TokenBucket(1, 7*time.Second, 4)),
		} {
			s := serve(t, ratelimit.Config{Limit: limit}, ratelimit.ServerOptions{Weight: cost})
			time.Sleep(1234 * time.Millisecond)
			refused := 0
			for i := range 60 {
				n := strconv.Itoa(1 + i%3)
				w := fetch(s, "/", "Cost", n)
				if w.Code == 200 {
					continue
				}
				refused++
				require.Equal(t, 429, w.Code)
				after, err := strconv.Atoi(w.Header().Get("Retry-After"))
				require.NoError(t, err)
				time.Sleep(time.Duration(after-1) * time.Second)
				if after > 1 {
					require.Equal(t, 429, fetch(s, "/", "Cost", n).Code, "%v: %d s were too much", limit, after)
				}
				time.Sleep(time.Second)
				require.Equal(t, 200, fetch(s, "/", "Cost", n).Code, "%v: after %d s", limit, after)
			}
			require.Greater(t, refused, 10, limit)
		}
	})
}
