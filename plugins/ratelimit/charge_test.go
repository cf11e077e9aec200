package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

func free(*http.Request) (int64, error) { return 0, nil }

// charging is a limited handler that does f.
func charging(t *testing.T, cfg ratelimit.ServerConfig, f func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge)) *served {
	t.Helper()
	s := serve(t, cfg)
	s.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		c, ok := ratelimit.ChargeOf(w)
		if cfg.ChargeInContext {
			c, ok = ratelimit.ChargeFrom(r.Context())
		}
		if !ok {
			t.Error("no charge")
			return
		}
		f(w, r, c)
	})
	s.Handler = s.plugin.Handler(s.inner)
	return s
}

func left(t *testing.T, s *served, key string) int64 {
	t.Helper()
	result, err := s.plugin.Limiter().Peek(t.Context(), key)
	require.NoError(t, err)
	return result.Remaining
}

func mustTake(t *testing.T, c *ratelimit.Charge, n int64) ratelimit.Result {
	t.Helper()
	result, err := c.Take(context.Background(), n)
	if err != nil {
		t.Error(err)
	}
	return result
}

const ip = "192.0.2.1"

// Five logins a minute for each user, by the name in the form.
func TestKeyFromTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := charging(t, ratelimit.ServerConfig{Name: "login", Limit: ratelimit.PerMinute(5), Weight: free, Headers: ratelimit.HeaderDraft10}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			result, err := c.TakeKey(t.Context(), "user:"+r.FormValue("user"), 1)
			if err != nil {
				t.Error(err)
			}
			if !result.Allowed {
				c.Reject(w, r, result)
			}
		})
		for range 5 {
			require.Equal(t, 200, fetch(s, "/?user=ann").Code)
		}
		time.Sleep(10 * time.Second)
		w := fetch(s, "/?user=ann")
		require.Equal(t, 429, w.Code)
		require.Equal(t, http.Header{
			"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "Retry-After": {"50"}, "X-Rate-Limited": {"true"},
			"Ratelimit-Policy": {`"login";q=5;w=60`}, "Ratelimit": {`"login";r=0;t=50`},
		}, w.Header())
		require.Contains(t, w.Body.String(), `"violated-policies":["login"]`)
		require.Equal(t, 200, fetch(s, "/?user=bob").Code)
		require.EqualValues(t, 5, left(t, s, ip), "the address has taken nothing")
		require.EqualValues(t, 0, left(t, s, "user:ann"))
		time.Sleep(50 * time.Second)
		require.Equal(t, 200, fetch(s, "/?user=ann").Code)
		require.Equal(t, ratelimit.ServerStats{Allowed: 8, Rejected: 1}, s.plugin.Stats())
	})
}

// Only what failed is paid for, and a key that is used up is refused whatever the
// password: else the answer to the right one would tell it.
func TestCharge_FailedLoginsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(2), Weight: free, Headers: allHeaders}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			if result := mustTake(t, c, 1); !result.Allowed {
				require.True(t, c.Reject(w, r, result))
				return
			}
			if r.URL.Query().Get("password") == "right" {
				require.NoError(t, c.Refund(t.Context()))
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		for range 20 {
			w := fetch(s, "/?password=right")
			require.Equal(t, 200, w.Code)
			require.Equal(t, `"default";r=2`, w.Header().Get("RateLimit"))
		}
		w := fetch(s, "/?password=a")
		require.Equal(t, 401, w.Code)
		require.Equal(t, `"default";r=1;t=60`, w.Header().Get("RateLimit"), "what the handler took is told")
		require.Equal(t, "1", w.Header().Get("X-RateLimit-Remaining"))
		require.Equal(t, "false", w.Header().Get("X-Rate-Limited"))
		require.Equal(t, 401, fetch(s, "/?password=b").Code)
		for _, password := range []string{"c", "right"} {
			w = fetch(s, "/?password="+password)
			require.Equal(t, 429, w.Code)
			require.Equal(t, "60", w.Header().Get("Retry-After"))
			require.Equal(t, "true", w.Header().Get("X-Rate-Limited"))
			require.Equal(t, []string{"0"}, w.Header().Values("X-RateLimit-Remaining"), "the failed ones stay taken")
		}
		time.Sleep(time.Minute)
		require.Equal(t, 200, fetch(s, "/?password=right").Code)
	})
}

func TestCharge_TakeRefundPeek(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10), Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderDraft03}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			require.EqualValues(t, 6, mustTake(t, c, 3).Remaining)
			refused := mustTake(t, c, 7)
			require.False(t, refused.Allowed)
			require.EqualValues(t, 6, refused.Remaining, "all or none")
			require.Equal(t, ratelimit.Never, mustTake(t, c, 11).RetryAfter)
			_, err := c.TakeKey(t.Context(), "other", 4)
			require.NoError(t, err)
			now, err := c.Take(t.Context(), 0)
			require.NoError(t, err)
			require.EqualValues(t, 6, now.Remaining)
			require.EqualValues(t, 6, left(t, servedBy(r), "other"))
			if r.URL.Path == "/refund" {
				require.NoError(t, c.Refund(t.Context()))
				require.EqualValues(t, 10, left(t, servedBy(r), ip), "its own weight too")
				require.EqualValues(t, 10, left(t, servedBy(r), "other"))
				require.NoError(t, c.Refund(t.Context()), "there is nothing more")
				require.EqualValues(t, 10, left(t, servedBy(r), ip))
				mustTake(t, c, 2)
			}
			_, err = c.Take(t.Context(), -1)
			require.ErrorIs(t, err, core.ErrConfig)
			_, err = c.TakeKey(t.Context(), "other", -1)
			require.ErrorIs(t, err, core.ErrConfig)
		})
		inner := s.Handler
		s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), servedKey{}, s)))
		})
		w := fetch(s, "/refund")
		require.Equal(t, `"default";r=8;t=3600`, w.Header().Get("RateLimit"))
		require.Equal(t, "8", w.Header().Get("RateLimit-Remaining"))
		require.NoError(t, s.plugin.Limiter().Reset(t.Context(), ip))
		w = fetch(s, "/")
		require.Equal(t, []string{`"default";r=6;t=3600`}, w.Header().Values("RateLimit"))
		require.Equal(t, []string{"6"}, w.Header().Values("RateLimit-Remaining"))
	})
}

type servedKey struct{}

func servedBy(r *http.Request) *served { s, _ := r.Context().Value(servedKey{}).(*served); return s }

// The refusal of another key is told, not how that of the request stands.
func TestCharge_RejectTellsOfTheKeyThatWasRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(2), Headers: allHeaders}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			result, err := c.TakeKey(r.Context(), "user:ann", 2)
			require.NoError(t, err)
			if !result.Allowed {
				c.Reject(w, r, result)
			}
		})
		require.Equal(t, 200, fetch(s, "/").Code)
		require.NoError(t, s.plugin.Limiter().Reset(t.Context(), ip))
		w := fetch(s, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, []string{`"default";r=0;t=60`}, w.Header().Values("RateLimit"))
		require.Equal(t, []string{"0"}, w.Header().Values("X-RateLimit-Remaining"))
		require.EqualValues(t, 2, left(t, s, ip), "what the request took itself has gone back")
	})
}

// After a refusal that the handler lets pass, the fields are about the least again.
func TestCharge_ToldIsTheLeast(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(10), Headers: ratelimit.HeaderDraft03, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerMinute(3)}},
	}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		result, err := c.Take(r.Context(), 3)
		require.NoError(t, err)
		require.False(t, result.Allowed)
		require.EqualValues(t, 10, result.Limit, "it is to be waited for longest")
	})
	_, err := s.plugin.Limiter().Take(t.Context(), ip, 7)
	require.NoError(t, err)
	all, err := s.plugin.Limiter().WithLimit(ratelimit.PerMinute(3))
	require.NoError(t, err)
	_, err = all.Take(t.Context(), "#layer:3:all:", 1)
	require.NoError(t, err)
	w := fetch(s, "/")
	require.Equal(t, "3", w.Header().Get("RateLimit-Limit"))
	require.Equal(t, "1", w.Header().Get("RateLimit-Remaining"))
}

func TestCharge_RefundsOnce(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(20)}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		require.NoError(t, c.Refund(r.Context()))
		require.NoError(t, c.Refund(r.Context()))
		server.Reject(w, r, server.Rejection{})
	})
	_, err := s.plugin.Limiter().Take(t.Context(), ip, 5)
	require.NoError(t, err)
	fetch(s, "/")
	require.EqualValues(t, 15, left(t, s, ip), "what others took stays taken")
}

// A name from a form cannot pretend to be the key of somebody else.
func TestCharge_TakeKeyCannotForgeMarks(t *testing.T) {
	t.Parallel()
	var keys []string
	s := charging(t, ratelimit.ServerConfig{
		Weight: free, Key: server.Header("User"), Routes: []ratelimit.Route{{Pattern: "/route", Limit: ratelimit.PerHour(5)}},
		Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Text == "permits granted" {
				keys = append(keys, e.Key)
			}
		}),
	}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		_, err := c.TakeKey(t.Context(), r.URL.Query().Get("user"), 1)
		require.NoError(t, err)
	})
	fetch(s, "/?user=ann", "User", "u")
	fetch(s, "/?user=%23layer:1", "User", "u")
	fetch(s, "/route?user=ann", "User", "u")
	fetch(s, "/route?user=%23key:x", "User", "u")
	fetch(s, "/?user=", "User", "u")
	require.Equal(t, []string{"ann", "#key:#layer:1", "#route:6:/route:ann", "#route:6:/route:#key:#key:x", ""}, keys)
}

// A rejected request takes nothing, of no limit, and what is told is true of that.
func TestCharge_RejectGivesAllBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(10), Headers: allHeaders})
		var told []ratelimit.Info
		s := charging(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerMinute(10), Weight: cost, Headers: allHeaders, OnRejected: func(_ http.ResponseWriter, _ *http.Request, rej server.Rejection) {
			told = append(told, limitedInfo(rej))
		}}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			mustTake(t, c, 2)
			n, err := cost(&http.Request{Header: http.Header{"Cost": r.Header["More"]}})
			require.NoError(t, err)
			result := mustTake(t, c, n)
			require.False(t, result.Allowed)
			c.Reject(w, r, result)
		})
		h := outer.plugin.Handler(s)
		w := fetch(h, "/", "Cost", "3", "More", "6")
		require.Equal(t, 429, w.Code)
		require.Equal(t, []string{`"outer";r=10`, `"api";r=10`}, w.Header().Values("RateLimit"))
		require.Equal(t, []string{`"outer";q=10;w=3600`, `"api";q=10;w=60`}, w.Header().Values("RateLimit-Policy"))
		require.Equal(t, []string{"60"}, w.Header().Values("Retry-After"))
		require.Equal(t, []string{"true"}, w.Header().Values("X-Rate-Limited"))
		require.EqualValues(t, 10, left(t, s, ip))
		require.EqualValues(t, 10, left(t, outer, ip))
		require.Equal(t, "api", told[0].Name)
		w = fetch(h, "/", "Cost", "3", "More", "11")
		require.Equal(t, 413, w.Code)
		require.Empty(t, w.Header().Values("Retry-After"))
		require.Contains(t, w.Body.String(), "The request costs 11, and the limit is 10.")
		require.Equal(t, ratelimit.ServerStats{Allowed: 2, Rejected: 2}, s.plugin.Stats())
	})
}

func TestCharge_RejectAfterTheResponseHasBegunDoesNothing(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1)}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		_, _ = w.Write([]byte("begun"))
		result := mustTake(t, c, 1)
		require.False(t, result.Allowed)
		require.False(t, c.Reject(w, r, result))
	})
	w := fetch(s, "/")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "begun", w.Body.String())
	require.EqualValues(t, 0, left(t, s, ip))
	require.Equal(t, ratelimit.ServerStats{Allowed: 1}, s.plugin.Stats())
}

// A cost that is known when the response is through, and the client has gone.
func TestCharge_AfterTheClientLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory, err := coreratelimit.NewMemory(0)
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		var later *ratelimit.Charge
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(100), Store: &ratelimittest.Slow{Store: memory, Delay: time.Millisecond}}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			_, _ = w.Write([]byte("a long report"))
			leave()
			result, err := c.Take(r.Context(), 9)
			require.NoError(t, err)
			require.True(t, result.Allowed)
			later = c
		})
		do(s, request(http.MethodGet, "/").WithContext(ctx))
		require.EqualValues(t, 90, left(t, s, ip))
		mustTake(t, later, 20)
		require.EqualValues(t, 70, left(t, s, ip), "and after the handler")
		require.NoError(t, later.Refund(t.Context()))
		require.EqualValues(t, 100, left(t, s, ip))
	})
}

func TestCharge_OfWhatIsNotLimited(t *testing.T) {
	t.Parallel()
	outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(10)})
	s := serve(t, ratelimit.ServerConfig{Name: "inner", Limit: ratelimit.PerHour(10), Allow: path("/free"), Exclude: path("/health")})
	h := func(f func(w http.ResponseWriter, r *http.Request)) http.Handler {
		return outer.plugin.Handler(s.plugin.Handler(http.HandlerFunc(f)))
	}
	fetch(h(func(w http.ResponseWriter, r *http.Request) {
		c, ok := ratelimit.ChargeOf(w)
		require.True(t, ok, "it is not that of the outer limiter")
		for _, n := range []int64{1, 1000} {
			result, err := c.Take(r.Context(), n)
			require.NoError(t, err)
			require.Equal(t, ratelimit.Result{Allowed: true}, result)
			result, err = c.TakeKey(r.Context(), "ann", n)
			require.NoError(t, err)
			require.Equal(t, ratelimit.Result{Allowed: true}, result)
		}
		now, err := c.Take(r.Context(), 0)
		require.NoError(t, err)
		require.Zero(t, now.Limit)
		_, err = c.Take(r.Context(), -1)
		require.ErrorIs(t, err, core.ErrConfig)
		require.NoError(t, c.Refund(r.Context()))
	}), "/free")
	require.EqualValues(t, 10, left(t, s, ip))
	require.EqualValues(t, 9, left(t, outer, ip))
	fetch(h(func(w http.ResponseWriter, _ *http.Request) {
		c, ok := ratelimit.ChargeOf(w)
		require.True(t, ok)
		mine, ok := outer.plugin.ChargeOf(w)
		require.True(t, ok)
		require.Same(t, mine, c, "the limiter that excludes a request is not there")
		_, ok = s.plugin.ChargeOf(w)
		require.False(t, ok)
	}), "/health")
	w := fetch(h(func(w http.ResponseWriter, r *http.Request) {
		c, _ := ratelimit.ChargeOf(w)
		require.False(t, c.Reject(w, r, ratelimit.Result{Limit: 7, RetryAfter: time.Second}))
		all, err := c.Peek(r.Context())
		require.NoError(t, err)
		require.Empty(t, all)
		w.WriteHeader(http.StatusAccepted)
	}), "/free")
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Equal(t, []string{"false"}, w.Header().Values("X-Rate-Limited"))
	_, ok := ratelimit.ChargeFrom(t.Context())
	require.False(t, ok)
}

func TestCharge_EachLimiterHasItsOwn(t *testing.T) {
	t.Parallel()
	outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(10)})
	s := charging(t, ratelimit.ServerConfig{Name: "inner", Limit: ratelimit.PerHour(10)}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		o, ok := outer.plugin.ChargeOf(w)
		require.True(t, ok)
		require.NotSame(t, o, c)
		again, _ := ratelimit.ChargeOf(w)
		require.Same(t, c, again)
		_, err := o.Take(r.Context(), 4)
		require.NoError(t, err)
		_, err = c.Take(r.Context(), 2)
		require.NoError(t, err)
	})
	fetch(outer.plugin.Handler(s), "/")
	require.EqualValues(t, 5, left(t, outer, ip))
	require.EqualValues(t, 7, left(t, s, ip))
}

func TestCharge_InShadowNeverRefuses(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(2), Shadow: true, Headers: allHeaders}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		var result ratelimit.Result
		for range 3 {
			result = mustTake(t, c, 1)
			require.True(t, result.Allowed)
		}
		require.False(t, c.Reject(w, r, result))
		result, err := c.TakeKey(t.Context(), "ann", 3)
		require.NoError(t, err)
		require.True(t, result.Allowed)
		now, err := c.Take(t.Context(), 0)
		require.NoError(t, err)
		require.Zero(t, now.Remaining)
		require.False(t, c.Reject(w, r, now), "the handler goes on")
	})
	w := fetch(s, "/")
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header())
	require.EqualValues(t, 0, left(t, s, ip))
	require.Equal(t, ratelimit.ServerStats{Allowed: 1}, s.plugin.Stats())
}

// What Peek tells is a refusal where the handler takes it for one.
func TestCharge_RejectByPeek(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told ratelimit.Info
		cfg := ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1), Weight: free, Headers: allHeaders, OnRejected: func(_ http.ResponseWriter, _ *http.Request, rej server.Rejection) { told = limitedInfo(rej) }}
		s := charging(t, cfg, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			now, err := c.Take(t.Context(), 0)
			require.NoError(t, err)
			if now.Remaining == 0 || r.URL.Path == "/no" {
				require.True(t, c.Reject(w, r, now))
				require.False(t, c.Reject(w, r, now), "it has answered")
				return
			}
			mustTake(t, c, 1)
			w.WriteHeader(http.StatusUnauthorized)
		})
		w := fetch(s, "/no")
		require.Equal(t, 429, w.Code)
		require.Empty(t, w.Header().Values("Retry-After"), "nobody knows what is waited for")
		require.Contains(t, w.Body.String(), `"Rate limit exceeded."`)
		require.Equal(t, 401, fetch(s, "/").Code)
		time.Sleep(10 * time.Second)
		w = fetch(s, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "50", w.Header().Get("Retry-After"))
		require.Equal(t, `"default";r=0;t=50`, w.Header().Get("RateLimit"))
		require.Equal(t, []string{"0"}, w.Header().Values("X-RateLimit-Remaining"))
		require.Contains(t, w.Body.String(), `"violated-policies":["default"]`)
		require.Equal(t, 50*time.Second, told.Result.RetryAfter)
		require.False(t, told.Result.Allowed)
		require.EqualValues(t, 2, s.plugin.Stats().Rejected)
	})
}

// A store that has failed is no refusal, whatever its zeros look like.
func TestCharge_RejectNeedsALimit(t *testing.T) {
	t.Parallel()
	store := &ratelimittest.Failing{Store: core.Must(coreratelimit.NewMemory(0))}
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1), Store: store, Headers: allHeaders}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		now, err := c.Take(t.Context(), 0)
		require.ErrorIs(t, err, coreratelimit.ErrStore, "also with Allow")
		_, err = c.Peek(t.Context())
		require.ErrorIs(t, err, coreratelimit.ErrStore)
		require.False(t, c.Reject(w, r, now))
		most, err := c.TakeAtMost(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, ratelimit.Result{Allowed: true}, most)
		if r.URL.Path == "/" {
			return
		}
		store.Up()
		require.True(t, mustTake(t, c, 1).Allowed)
		require.True(t, c.Reject(w, r, mustTake(t, c, 1)), "and now it has not")
	})
	store.Down()
	w := fetch(s, "/")
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header())
	w = fetch(s, "/up")
	require.Equal(t, 429, w.Code)
	require.Equal(t, `"default";r=1`, w.Header().Get("RateLimit"), "given back")
}

// It may be any of several refusals.
func TestCharge_RejectNamesTheRefusalItIsGiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told ratelimit.Info
		s := charging(t, ratelimit.ServerConfig{
			Name: "api", Limit: ratelimit.PerMinute(100), Weight: free, Headers: ratelimit.HeaderDraft10, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerMinute(5)}},
			OnRejected: func(_ http.ResponseWriter, _ *http.Request, rej server.Rejection) { told = limitedInfo(rej) },
		}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			keyed := func(key string, n int64) ratelimit.Result {
				result, err := c.TakeKey(t.Context(), key, n)
				require.NoError(t, err)
				require.False(t, result.Allowed)
				return result
			}
			given := map[string]ratelimit.Result{"/ann": keyed("user:ann", 101), "/mail": keyed("mail:x", 107), "/": mustTake(t, c, 6)}
			infos, err := c.Peek(t.Context())
			require.NoError(t, err)
			given["/peek"] = infos[0].Result
			for range 6 { // of which only so many are kept
				require.False(t, mustTake(t, c, 7).Allowed)
			}
			require.True(t, c.Reject(w, r, given[r.URL.Path]))
		})
		for _, tt := range []struct {
			target, name, violated string
			code                   int
		}{
			{"/mail", "api", `["api"]`, 413},
			{"/", "all", `["all"]`, 413},
			{"/ann", "all", `["all"]`, 413}, // forgotten: it is taken for that which has least left
			{"/peek", "all", `["all"]`, 429},
		} {
			w := fetch(s, tt.target)
			require.Equal(t, tt.code, w.Code, tt.target)
			require.Equal(t, tt.name, told.Name, tt.target)
			require.Contains(t, w.Body.String(), `"violated-policies":`+tt.violated, tt.target)
		}
	})
}

// Those further out learn of it also where a writer in between hides them.
func TestCharge_RejectReachesTheOuterWithoutUnwrap(t *testing.T) {
	t.Parallel()
	outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(10), Headers: ratelimit.HeaderDraft10})
	for name, between := range map[string]func(http.Handler) http.Handler{
		"writer":  hiding,
		"timeout": func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Minute, "late") },
	} {
		s := charging(t, ratelimit.ServerConfig{Name: "inner", ChargeInContext: true, Limit: ratelimit.PerMinute(1), Headers: ratelimit.HeaderDraft10}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			result := mustTake(t, c, 1)
			require.True(t, c.Reject(w, r, result))
			require.False(t, c.Reject(w, r, result), "once")
		})
		w := fetch(outer.plugin.Handler(s.plugin.Handler(between(s.inner))), "/")
		require.Equal(t, 429, w.Code, name)
		require.ElementsMatch(t, []string{`"outer";r=10`, `"inner";r=1`}, w.Header().Values("RateLimit"), name)
		require.EqualValues(t, 10, left(t, outer, ip), name)
		require.EqualValues(t, 1, left(t, s, ip), name)
	}
}

func TestCharge_RejectWithoutUnwrapSendsOneBody(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{
		ChargeInContext: true, Limit: ratelimit.PerMinute(1),
		OnRejected: func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "slower")
		},
	}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		require.True(t, c.Reject(w, r, mustTake(t, c, 1)))
	})
	for name, between := range map[string]func(http.Handler) http.Handler{
		"writer":  hiding,
		"timeout": func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Minute, "late") },
	} {
		w := fetch(s.plugin.Handler(between(s.inner)), "/")
		require.Equal(t, http.StatusTeapot, w.Code, name)
		require.Equal(t, "slower", w.Body.String(), name)
	}
}

// hiding gives next a writer that has no Unwrap.
func hiding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
}

// A handler that runs on after its time does not touch what is answered meanwhile.
func TestCharge_AfterATimeout(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(http.Handler) http.Handler{
		"net/http": func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Millisecond, "late") },
	} {
		outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(1000), Headers: everyHeader})
		var all sync.WaitGroup
		var rejected atomic.Int64
		answered := make(chan struct{})
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1000), Headers: everyHeader, ChargeInContext: name == "net/http"}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			defer all.Done()
			result := mustTake(t, c, 1001)
			ended(r)
			if r.URL.Path == "/late" {
				<-answered
			}
			if c.Reject(w, r, result) {
				rejected.Add(1)
			}
			mustTake(t, c, 1)
			if err := c.Refund(t.Context()); err != nil {
				t.Error(err)
			}
		})
		h := outer.plugin.Handler(s.plugin.Handler(limit(s.inner)))
		charged := 0
		for range 100 {
			all.Add(1)
			w := fetch(h, "/")
			for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
				require.Len(t, w.Header().Values(field), 2, name)
			}
			if w.Code == http.StatusRequestEntityTooLarge { // net/http takes what ends with the limit for in time
				require.Equal(t, []string{"true"}, w.Header().Values("X-Rate-Limited"), name)
				continue
			}
			charged++
			require.Equal(t, 503, w.Code, name)
			require.Equal(t, []string{"false"}, w.Header().Values("X-Rate-Limited"), name)
			require.NotEqual(t, "1000", w.Header().Get("X-RateLimit-Remaining"), "the outer was charged")
		}
		all.Wait()
		require.EqualValues(t, 1000-charged, left(t, outer, ip), name)
		require.EqualValues(t, 1000, left(t, s, ip), name)
		before := rejected.Load()
		require.EqualValues(t, before, s.plugin.Stats().Rejected)
		all.Add(1)
		require.Equal(t, 503, fetch(h, "/late").Code)
		close(answered)
		all.Wait()
		require.Equal(t, before, rejected.Load(), "it has been answered")
	}
}

func ended(r *http.Request) { <-r.Context().Done() }

// A cost known later: what is there is taken, and the next request finds nothing.
func TestCharge_TakeAtMost(t *testing.T) {
	t.Parallel()
	for name, layers := range map[string][]ratelimit.Layer{"one": nil, "layers": {{Name: "all", Limit: ratelimit.PerHour(8)}, {Name: "more", Limit: ratelimit.PerHour(50)}}} {
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10), Weight: free, Layers: layers, Headers: ratelimit.HeaderDraft03}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			for _, n := range []int64{0, 3, 1 << 62} {
				result, err := c.TakeAtMost(r.Context(), n)
				require.NoError(t, err)
				require.True(t, result.Allowed)
				require.LessOrEqual(t, result.Permits, n)
			}
			result, err := c.TakeAtMost(r.Context(), 2)
			require.NoError(t, err)
			require.False(t, result.Allowed)
			require.Zero(t, result.Permits)
			require.Positive(t, result.RetryAfter)
			_, err = c.TakeAtMost(r.Context(), -1)
			require.ErrorIs(t, err, core.ErrConfig)
			if r.URL.Path == "/reject" {
				require.True(t, c.Reject(w, r, result))
			}
		})
		w := fetch(s, "/reject")
		require.Equal(t, 429, w.Code, name)
		require.EqualValues(t, 10, left(t, s, ip), "all came back")
		w = fetch(s, "/")
		require.Equal(t, 200, w.Code, name)
		require.Equal(t, "0", w.Header().Get("RateLimit-Remaining"), name)
		require.EqualValues(t, len(layers), left(t, s, ip), "the same of each")
	}
}

// Others are faster, again and again.
func TestCharge_TakeAtMostIsBounded(t *testing.T) {
	t.Parallel()
	var s *served
	thieves := 0
	s = charging(t, ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(100), Weight: free, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerHour(200)}},
		Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Text == "permits refused" {
				thieves++
			}
		}),
		Store: thief{core.Must(coreratelimit.NewMemory(0))},
	}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		result, err := c.TakeAtMost(r.Context(), 1000)
		require.NoError(t, err)
		require.False(t, result.Allowed)
	})
	fetch(s, "/")
	require.Equal(t, 4, thieves)
}

// thief is a store of which somebody takes one after each look.
type thief struct{ coreratelimit.Store }

type thiefTable struct{ limits.Table }

func (s thief) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return thiefTable{t}, err
}

func (t thiefTable) Apply(ctx context.Context, key string, plan limits.ID, op limits.Op) (coreratelimit.Result, error) {
	r, err := t.Table.Apply(ctx, key, plan, op)
	if op.Kind == limits.Take && op.Cost == 0 {
		_, _ = t.Table.Apply(ctx, key, plan, limits.Op{Cost: 1})
	}
	return r, err
}

// lateStore answers a take of 10 late.
type lateStore struct{ coreratelimit.Store }

type lateTable struct{ limits.Table }

func (s lateStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return lateTable{t}, err
}

func (t lateTable) Apply(ctx context.Context, key string, plan limits.ID, op limits.Op) (coreratelimit.Result, error) {
	r, err := t.Table.Apply(ctx, key, plan, op)
	if op.Cost == 10 && op.Kind == limits.Take {
		time.Sleep(time.Second)
	}
	return r, err
}

func TestCharge_ALateAnswerTellsNoMoreThanIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := core.Must(coreratelimit.NewMemory(0))
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(100, time.Hour, 100), Headers: ratelimit.HeaderDraft03, Store: lateStore{memory}}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			if r.URL.Path == "/refill" {
				mustTake(t, c, 60)
				time.Sleep(30 * time.Minute)
				mustTake(t, c, 1)
				return
			}
			var all sync.WaitGroup
			all.Go(func() { mustTake(t, c, 10) })
			time.Sleep(100 * time.Millisecond)
			mustTake(t, c, 20)
			all.Wait()
			if r.URL.Path == "/refund" {
				require.NoError(t, c.Refund(t.Context()))
			}
		})
		require.Equal(t, "69", fetch(s, "/").Header().Get("RateLimit-Remaining"))
		require.NoError(t, s.plugin.Limiter().Reset(t.Context(), ip))
		require.Equal(t, "100", fetch(s, "/refund").Header().Get("RateLimit-Remaining"), "a refund is later than what it gives back")
		require.Equal(t, "88", fetch(s, "/refill").Header().Get("RateLimit-Remaining"), "later, and more")
	})
}

// All that a client is held to, for an endpoint that tells it.
func TestCharge_Peek(t *testing.T) {
	t.Parallel()
	var infos []ratelimit.Info
	s := charging(t, ratelimit.ServerConfig{
		Name: "api", Limit: ratelimit.PerHour(100), Routes: []ratelimit.Route{{Pattern: "GET /usage", Weight: free}},
		Layers: []ratelimit.Layer{{Name: "tenant", Key: server.Header("Tenant"), Limit: ratelimit.PerHour(50)}},
	}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		var err error
		infos, err = c.Peek(r.Context())
		require.NoError(t, err)
		other, err := c.TakeKey(r.Context(), "other", 0)
		require.NoError(t, err)
		require.EqualValues(t, 100, other.Remaining)
	})
	for range 3 {
		fetch(s, "/", "Tenant", "t1")
	}
	fetch(s, "/usage", "Tenant", "t1")
	require.Len(t, infos, 2)
	for i, want := range []ratelimit.Info{{Name: "api", Key: ip}, {Name: "tenant", Key: "#layer:6:tenant:t1"}} {
		require.Equal(t, want.Name, infos[i].Name)
		require.Equal(t, want.Key, infos[i].Key)
		require.EqualValues(t, 3, infos[i].Result.Limit-infos[i].Result.Remaining)
	}
	fetch(s, "/usage")
	require.Len(t, infos, 1)
}

// What prints its context does not print the request.
func TestCharge_ContextIsNotThePrintedRequest(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{Name: "api", ChargeInContext: true}, func(_ http.ResponseWriter, r *http.Request, _ *ratelimit.Charge) {
		require.Equal(t, "ratelimit.Server(api)", fmt.Sprint(r.Context()))
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		require.NotContains(t, fmt.Sprintf("%+v", ctx), "s3cret")
	})
	fetch(s, "/", "Authorization", "Bearer s3cret")
}

func TestCharge_TakesOfLayers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := charging(t, ratelimit.ServerConfig{
			Name: "api", Limit: ratelimit.PerHour(10), Weight: free, Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerHour(5)}},
		}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			require.True(t, mustTake(t, c, 4).Allowed)
			now, err := c.Take(t.Context(), 0)
			require.NoError(t, err)
			require.EqualValues(t, 1, now.Remaining, "the layer's")
			if r.URL.Path == "/" {
				return
			}
			result := mustTake(t, c, 2)
			require.False(t, result.Allowed)
			c.Reject(w, r, result)
		})
		w := fetch(s, "/reject")
		require.Equal(t, 429, w.Code)
		require.Equal(t, `"api";r=10, "all";r=5`, w.Header().Get("RateLimit"))
		require.Contains(t, w.Body.String(), `"violated-policies":["all"]`)
		w = fetch(s, "/")
		require.Equal(t, `"api";r=6;t=3600, "all";r=1;t=3600`, w.Header().Get("RateLimit"))
		require.Equal(t, "1", w.Header().Get("X-RateLimit-Remaining"))
		require.Equal(t, "5", w.Header().Get("X-RateLimit-Limit"))
	})
}

func TestCharge_StoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := core.Must(coreratelimit.NewMemory(0))
		store := &ratelimittest.Failing{Store: memory}
		var refused error
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10), Store: store, OnStoreError: ratelimit.Deny, Headers: ratelimit.HeaderDraft10}, func(_ http.ResponseWriter, _ *http.Request, c *ratelimit.Charge) {
			store.Down()
			_, err := c.Take(t.Context(), 1)
			require.ErrorIs(t, err, coreratelimit.ErrStore)
			_, err = c.TakeKey(t.Context(), "x", 1)
			require.ErrorIs(t, err, coreratelimit.ErrStore)
			_, err = c.Take(t.Context(), 0)
			require.ErrorIs(t, err, coreratelimit.ErrStore)
			refused = c.Refund(t.Context())
			store.Up()
		})
		w := fetch(s, "/")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"default";r=9;t=3600`, w.Header().Get("RateLimit"), "what is known for sure")
		require.ErrorIs(t, refused, coreratelimit.ErrStore)
		require.EqualValues(t, 9, left(t, s, ip))
	})
}

func TestCharge_StoreFailsAndLetsPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Failing{Store: core.Must(coreratelimit.NewMemory(0))}
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10), Store: store, Headers: allHeaders}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			store.Down()
			for range 2 {
				result, err := c.Take(r.Context(), 1)
				require.NoError(t, err)
				require.Equal(t, ratelimit.Result{Allowed: true}, result)
			}
			store.Up()
		})
		w := fetch(s, "/")
		require.Equal(t, `"default";r=9;t=3600`, w.Header().Get("RateLimit"), "what is known for sure")
		require.Equal(t, "9", w.Header().Get("X-RateLimit-Remaining"))
	})
}

// A listener can look at the charge that it is called for: no lock is held.
func TestCharge_ListenerUsesIt(t *testing.T) {
	t.Parallel()
	var seen []int64
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10), ChargeInContext: true, Registry: eventtest.Registry(func(ctx context.Context, _ registry.Event) {
		if c, ok := ratelimit.ChargeFrom(ctx); ok {
			now, err := c.Take(ctx, 0)
			require.NoError(t, err)
			seen = append(seen, now.Remaining)
		}
	})}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		_, err := c.Take(r.Context(), 2)
		require.NoError(t, err)
	})
	fetch(s, "/")
	require.Equal(t, []int64{7}, seen)
}

func TestCharge_Concurrent(t *testing.T) {
	t.Parallel()
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(1000), Headers: allHeaders, Layers: []ratelimit.Layer{{Name: "all"}}}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					c, _ := ratelimit.ChargeOf(w)
					mustTake(t, c, 1)
					_, err := c.TakeKey(t.Context(), "x", 1)
					_, peek := c.Take(t.Context(), 0)
					if err = errors.Join(err, peek, c.Refund(t.Context())); err != nil {
						t.Error(err)
					}
				}
			})
		}
		w.WriteHeader(http.StatusOK)
		all.Wait()
	})
	fetch(s, "/")
	require.EqualValues(t, 1000, left(t, s, ip), "all came back, each once")
	require.EqualValues(t, 1000, left(t, s, "x"))
}

// What a handler leaves behind on its request reaches those further out, also where
// they have matched a pattern before.
func TestCharge_TheRequestFurtherOutKnowsThePattern(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.ServerConfig{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(http.ResponseWriter, *http.Request) {})
	r := request(http.MethodGet, "/users/1")
	do(s.plugin.Handler(mux), r)
	require.Equal(t, "GET /users/{id}", r.Pattern)
	outer := http.NewServeMux()
	outer.Handle("/users/", s.plugin.Handler(mux))
	r = request(http.MethodGet, "/users/1")
	do(outer, r)
	require.Equal(t, "GET /users/{id}", r.Pattern)
	r = request(http.MethodGet, "/users/1")
	outer = http.NewServeMux()
	outer.Handle("/users/", s)
	do(outer, r)
	require.Equal(t, "/users/", r.Pattern)
}

// The handler had a reason of its own before, and now nothing to wait for is known.
func TestCharge_RejectOfAHandlerRemovesAnEarlierRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, onRejected := range map[string]func(http.ResponseWriter, *http.Request, server.Rejection){
			"default": nil, "its own": func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) {
				w.WriteHeader(http.StatusTooManyRequests)
			},
		} {
			s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(5), OnRejected: onRejected}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
				w.Header().Set("Retry-After", "7")
				require.True(t, c.Reject(w, r, mustTake(t, c, 0)))
			})
			w := fetch(s, "/")
			require.Equal(t, 429, w.Code, name)
			require.Empty(t, w.Header().Values("Retry-After"), name)
		}
	})
}
