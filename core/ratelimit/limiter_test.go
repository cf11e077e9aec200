package ratelimit_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
)

func newLimiter(tb testing.TB, cfg ratelimit.Config) *ratelimit.Limiter {
	tb.Helper()
	if cfg.Store != nil && cfg.Name == "" {
		cfg.Name = "default"
	}
	l, err := ratelimit.New(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Close()) })
	return l
}

// onEvents is a registry whose events go to f.
func onEvents(f func(e registry.Event)) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) { f(e) })
}

func take(tb testing.TB, l *ratelimit.Limiter, key string, n int64) ratelimit.Result { //nolint:thelper // see below
	r, err := l.Take(tb.Context(), key, n)
	if err != nil { // it is called so often that the assertion would be most of the time
		tb.Helper()
		require.NoError(tb, err)
	}
	return r
}

func TestZeroConfig(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{})
	require.Equal(t, "default", l.Name())
	require.Equal(t, ratelimit.Config{Limits: map[string]ratelimit.Limit{}}, l.Config())
	r := take(t, l, "k", 1000)
	require.EqualValues(t, 0, r.Remaining)
	require.InDelta(t, time.Minute, r.FullAfter, float64(time.Second))
	require.False(t, take(t, l, "k", 1).Allowed)
}

func TestNegativeCost(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{})
	_, err := l.Take(t.Context(), "k", -1)
	require.ErrorIs(t, err, core.ErrConfig)
	require.EqualError(t, err, "ratelimit cost = -1: must be >= 0 (0 only looks)")
	_, err = l.Wait(t.Context(), "k", -1)
	require.ErrorIs(t, err, core.ErrConfig)
	require.Zero(t, l.Stats().StoreErrors)
}

func TestEventsOfDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(2), MaxWait: -1, Registry: onEvents(func(e registry.Event) {
			told = append(told, fmt.Sprint(e.Text, " ", e.Key, e.Attrs))
		})})
		for range 3 { // the first makes the slot
			take(t, l, "a", 1)
		}
		take(t, l, "a", 0) // only looks
		_, err := l.Wait(t.Context(), "a", 2)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go stop()
		_, err = l.Wait(ctx, "a", 1)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{
			"permits granted a[remaining=1 waited=0s cost=1]", "permits granted a[remaining=0 waited=0s cost=1]",
			"permits refused a[limit=2 remaining=0 retry_after=1m0s cost=1]",
			"waiting for permits a[cost=2]", "permits granted a[remaining=0 waited=1m0s cost=2]",
			"waiting for permits a[cost=1]", "wait for permits canceled a[waited=0s err=context canceled cost=1]",
		}, told)
		s := l.Stats()
		require.Equal(t, ratelimit.Stats{Allowed: 3, Rejected: 1, Canceled: 1, Keys: 1}, s)
	})
}

func TestLimiterIsAMechanism(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	p, err := core.NewPipeline(l)
	require.NoError(t, err)
	op := func(context.Context) (int, error) { return 42, nil }
	v, err := core.Do(t.Context(), p, op)
	require.NoError(t, err)
	require.Equal(t, 42, v)
	_, err = core.Do(t.Context(), p, op)
	require.ErrorIs(t, err, ratelimit.ErrLimited)
	_, err = ratelimit.Do(t.Context(), l, "", op)
	require.ErrorIs(t, err, ratelimit.ErrLimited)
}

func TestValidateReportsEveryField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  ratelimit.Config
		want []string
	}{
		"limit": {
			ratelimit.Config{Limit: ratelimit.PerMinute(0)},
			[]string{"ratelimit.Config.Limit = 0/1m: must have 1 to 274877906944 permits"},
		},
		"named": {
			ratelimit.Config{Limits: map[string]ratelimit.Limit{"": {}, "a b": {}, strings.Repeat("a", 65): {}, "ok-._9": ratelimit.PerHour(-1)}},
			[]string{
				`ratelimit.Config.Limits = "": must be named`, `= "a b": must be named`, `aa": must be named`,
				`ratelimit.Config.Limits["ok-._9"] = -1/1h: must have`,
			},
		},
		"two": {
			ratelimit.Config{Limit: ratelimit.FixedWindow(-1, -1), MaxKeys: -2, OnStoreError: "no"},
			[]string{
				"ratelimit.Config.Limit = -1/-1ns", "ratelimit.Config.MaxKeys = -2: must be 0 to 1073741824",
				"ratelimit.Config.OnStoreError = no: must be allow, deny or local",
			},
		},
		"with store": {
			ratelimit.Config{Store: &ratelimittest.Failing{}, MaxKeys: 5},
			[]string{`ratelimit.Config.Name = "": must be given with a Store`, "ratelimit.Config.MaxKeys = 5: must be 0 with a Store of your own"},
		},
		"no store": { // a constructor returns a nil pointer together with an error
			ratelimit.Config{Name: "l", Store: (*ratelimittest.Failing)(nil)},
			[]string{"ratelimit.Config.Store = a nil pointer: must be a store, or nil for state in memory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ratelimit.New(c.cfg)
			require.ErrorIs(t, err, core.ErrConfig)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func newNamed(tb testing.TB, cfg ratelimit.Config) *ratelimit.Limiter {
	tb.Helper()
	cfg.Limit, cfg.Limits = ratelimit.PerHour(10), map[string]ratelimit.Limit{
		"gold": ratelimit.PerHour(100), "slow": ratelimit.TokenBucket(1, time.Second, 2),
	}
	return newLimiter(tb, cfg)
}

// A key has one usage under all limits of a limiter.
func TestUnder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newNamed(t, ratelimit.Config{Name: "api"})
		gold := l.Under("gold")
		require.Same(t, gold, l.Under("gold"))
		require.Same(t, gold, gold.Under("gold"))
		require.Same(t, l.Under("slow"), gold.Under("slow"))
		for _, name := range []string{"", "GOLD"} {
			require.Same(t, l, l.Under(name))
			require.Same(t, gold, gold.Under(name))
		}
		require.Equal(t, "api", gold.Name())
		require.EqualValues(t, 93, take(t, gold, "k", 7).Remaining)
		require.EqualValues(t, 3, mustPeek(t, l, "k").Remaining)
		require.False(t, take(t, l, "k", 4).Allowed)

		_, err := l.Under("slow").Wait(t.Context(), "w", 3)
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, err, &limited)
		require.Equal(t, [3]string{"api", "slow", "w"}, [3]string{limited.Name, limited.Limit, limited.Key})
		require.EqualError(t, err, "ratelimit: api: slow: the cost is above the limit of 2")
		require.NoError(t, gold.Close())
		_, err = l.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed)
	})
}

// A limiter of Under follows SetConfig: its limit changes, goes and comes back.
func TestUnderAfterSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newNamed(t, ratelimit.Config{})
		gold, given := l.Under("gold"), l.Config()
		for _, step := range []struct {
			limits map[string]ratelimit.Limit
			limit  int64
		}{
			{map[string]ratelimit.Limit{"gold": ratelimit.PerHour(50)}, 50},
			{nil, 10},
			{map[string]ratelimit.Limit{"gold": ratelimit.PerHour(70)}, 70},
		} {
			cfg := given
			cfg.Limits = step.limits
			require.NoError(t, gold.SetConfig(cfg))
			require.Equal(t, step.limit, mustPeek(t, gold, "k").Limit)
			if cfg.Limits != nil {
				cfg.Limits["gold"] = ratelimit.PerHour(1)
				require.Equal(t, step.limit, mustPeek(t, gold, "k").Limit)
				require.Same(t, gold, l.Under("gold"))
			} else {
				require.Same(t, l, l.Under("gold"))
			}
		}
		l.Config().Limits["gold"] = ratelimit.PerHour(1)
		require.EqualValues(t, 70, mustPeek(t, gold, "k").Limit)
		require.NotNil(t, newLimiter(t, ratelimit.Config{}).Config().Limits)
		cfg := given
		cfg.Limits = map[string]ratelimit.Limit{"": ratelimit.PerHour(1), "a b": {}, "gold": ratelimit.PerHour(-1)}
		var bad *core.ConfigError
		require.ErrorAs(t, l.SetConfig(cfg), &bad)
		require.EqualValues(t, 70, mustPeek(t, gold, "k").Limit)
	})
}

func TestOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, ctx := newNamed(t, ratelimit.Config{MaxWait: -1}), t.Context()
		gold := l.Under("gold")
		limitUnder := func(ctx context.Context, l *ratelimit.Limiter, key string) int64 {
			r, err := l.Take(ctx, key, 1)
			require.NoError(t, err)
			peek, err := l.Peek(ctx, key)
			require.NoError(t, err)
			require.Equal(t, r.Limit, peek.Limit)
			return r.Limit
		}
		small := l.Override(ctx, func(c *ratelimit.Config) { c.Limit = ratelimit.PerHour(5) })
		require.EqualValues(t, 5, limitUnder(small, l, "k"))
		require.EqualValues(t, 100, limitUnder(small, gold, "k"))
		require.EqualValues(t, 10, limitUnder(ctx, l, "k"))
		ofOther := newNamed(t, ratelimit.Config{}).Override(ctx, func(c *ratelimit.Config) { c.Limit = ratelimit.PerHour(5) })
		require.EqualValues(t, 10, limitUnder(ofOther, l, "k"))
		limits := map[string]ratelimit.Limit{"gold": ratelimit.PerHour(7)}
		inner := gold.Override(small, func(c *ratelimit.Config) {
			c.Name, c.MaxKeys, c.MaxWait, c.Limits = "other", 1, time.Second, limits
			c.Limit = c.Limit.And(ratelimit.PerMinute(2))
		})
		require.EqualValues(t, 7, limitUnder(inner, gold, "k"))
		require.EqualValues(t, 2, limitUnder(inner, l, "j"))
		require.NoError(t, l.SetKeyLimit("own", ratelimit.PerHour(3)))
		require.EqualValues(t, 3, limitUnder(inner, l, "own"))

		_, err := l.Wait(inner, "w", 2)
		require.NoError(t, err)
		_, err = l.Wait(inner, "w", 1)
		require.EqualError(t, err, "ratelimit: default: limited for another 1m")
		bad := l.Override(ctx, func(c *ratelimit.Config) { c.Limit = ratelimit.PerHour(-1) })
		for name, op := range map[string]func() error{
			"take": func() error { _, err := l.Take(bad, "k", 1); return err },
			"wait": func() error { _, err := l.Wait(bad, "k", 1); return err },
			"peek": func() error { _, err := gold.Peek(bad, "k"); return err },
		} {
			var field *core.ConfigError
			require.ErrorAs(t, op(), &field, name)
		}
		require.EqualValues(t, 10, spec(l.Config().Limit).Permits)
	})
}

// The map of a Config is the caller's: what is written to it later is neither in force nor on the page. So is that of an Override.
func TestLimitsAreCopied(t *testing.T) {
	t.Parallel()
	var r registry.Registry
	cfg := ratelimit.Config{Registry: (*core.Registry)(&r), Limits: map[string]ratelimit.Limit{"gold": ratelimit.PerHour(5)}}
	l := newLimiter(t, cfg)
	e, _ := r.Get("ratelimit", "default")
	requireGold := func(want int64) {
		t.Helper()
		require.Equal(t, ratelimit.PerHour(want), e.Source.Config().(ratelimit.Config).Limits["gold"])
		require.Equal(t, ratelimit.PerHour(want), l.Config().Limits["gold"])
		require.Equal(t, want, mustPeek(t, l.Under("gold"), "k").Limit)
	}
	cfg.Limits["gold"] = ratelimit.PerHour(6)
	requireGold(5)
	require.NoError(t, l.SetConfig(cfg))
	cfg.Limits["gold"] = ratelimit.PerHour(7)
	requireGold(6)
	ctx := l.Override(t.Context(), func(c *ratelimit.Config) { c.Limits["gold"] = ratelimit.PerHour(8) })
	p, err := l.Under("gold").Peek(ctx, "k")
	require.NoError(t, err)
	require.EqualValues(t, 8, p.Limit)
	requireGold(6)
}

// Decisions of a named limit have a label; the sum of all is that of Stats.
func TestFiguresOfLimits(t *testing.T) {
	t.Parallel()
	var r registry.Registry
	l := newNamed(t, ratelimit.Config{Name: "api", Registry: (*core.Registry)(&r)})
	for range 3 {
		take(t, l, "a", 5)
		take(t, l.Under("gold"), "b", 60)
		take(t, l.Under("slow"), "c", 1)
	}
	e, _ := r.Get("ratelimit", "api")
	got := map[string]float64{}
	for _, f := range e.Source.Figures() {
		if f.Name == "requests_total" || f.Name == "limit_permits" {
			key := f.Name
			for _, label := range f.Labels {
				key += " " + label
			}
			got[key] = f.N
		}
	}
	require.Equal(t, map[string]float64{
		"requests_total result allowed": 2, "requests_total result throttled": 1,
		"requests_total result canceled": 0, "requests_total result error": 0,
		"requests_total limit gold result allowed": 1, "requests_total limit gold result throttled": 2,
		"requests_total limit slow result allowed": 2, "requests_total limit slow result throttled": 1,
		"limit_permits": 10, "limit_permits limit gold": 100, "limit_permits limit slow": 2,
	}, got)
	require.Equal(t, "allowed=5 rejected=4 keys=3", l.Stats().String())
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.Config{Name: "api", Registry: &core.Registry{}, Limit: ratelimit.TokenBucket(10, time.Minute, 10), MaxKeys: 100}
		l := newLimiter(t, cfg)
		require.True(t, take(t, l, "k", 10).Allowed)
		next := cfg
		next.Limit, next.MaxWait = ratelimit.TokenBucket(10, time.Minute, 5), time.Hour
		require.NoError(t, l.SetConfig(next))
		require.Equal(t, 36*time.Second, take(t, l, "k", 1).RetryAfter, "what was taken stays taken")
		require.Equal(t, time.Minute, served(t, <-waitAt(t.Context(), l, 5)), "up to an hour now")

		bad := next
		bad.Name, bad.Registry, bad.Store, bad.Limit = "other", &core.Registry{}, &ratelimittest.Failing{}, ratelimit.PerHour(-1)
		err := l.SetConfig(bad)
		for _, want := range []string{"Config.Name = other: must stay api", "Config.Registry =", "Config.Store =", "Limit = -1/"} {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, next.Limit, l.Config().Limit, "the old one is kept")

		shared := next
		shared.Name, shared.Registry, shared.MaxWait = "", nil, time.Second
		require.NoError(t, l.SetConfig(shared), "one of many instances")
		require.Equal(t, "api", l.Config().Name)
		require.Same(t, cfg.Registry, l.Config().Registry)
		require.Equal(t, time.Second, l.Config().MaxWait)
		require.NoError(t, l.Close())
		_, ok := core.Lookup[*ratelimit.Limiter](cfg.Registry, "api")
		require.False(t, ok, "it knows where it is")
	})
}

func TestSetKeyLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10), MaxWait: time.Hour})
		pro := ratelimittest.Under(t, l, ratelimit.PerMinute(100))
		require.True(t, take(t, l, "k", 4).Allowed)
		require.NoError(t, l.SetKeyLimit("k", ratelimit.PerMinute(5)))
		require.EqualValues(t, 0, take(t, l, "k", 1).Remaining, "what it took stays taken")
		require.False(t, take(t, pro, "k", 1).Allowed, "whatever the view")
		require.True(t, take(t, l, "other", 10).Allowed)
		w := waitAt(t.Context(), l, 3)
		time.Sleep(time.Second)
		require.NoError(t, pro.SetKeyLimit("k", ratelimit.PerMinute(8)))
		require.Equal(t, time.Second, served(t, <-w), "who waits is served by the new one")
		require.NoError(t, l.SetKeyLimit("k", ratelimit.TokenBucket(1, time.Minute, 8)))
		require.Equal(t, time.Minute-time.Second, take(t, l, "k", 1).RetryAfter, "what the window gives back")
		_ = l.SetKeyLimit("k", ratelimit.Limit{})
		require.EqualValues(t, 2, mustPeek(t, l, "k").Remaining)
		_ = l.SetKeyLimit("nobody", ratelimit.Limit{})
		require.ErrorIs(t, l.SetKeyLimit("k", ratelimit.PerMinute(-1)), core.ErrConfig)
	})
}

func TestSetKeyLimit_Bound(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{})
	ratelimit.FillKeyLimits(l, 1)
	require.NoError(t, l.SetKeyLimit("a", ratelimit.PerHour(1)))
	require.NoError(t, l.SetKeyLimit("a", ratelimit.PerHour(2)))
	for range 2 {
		require.ErrorContains(t, l.SetKeyLimit("b", ratelimit.PerHour(1)), "at most 1048576 keys")
		require.EqualValues(t, 1000, take(t, l, "b", 1).Limit)
	}
	require.NoError(t, l.SetKeyLimit("a", ratelimit.Limit{}))
	require.NoError(t, l.SetKeyLimit("b", ratelimit.PerHour(3)))
	require.EqualValues(t, 3, take(t, l, "b", 1).Limit)
}

// Limits change under load: nothing but the limit changes, and each decision is counted once, under whatever limit.
func TestSetConfigUnderLoad(t *testing.T) {
	t.Parallel()
	var r registry.Registry
	bucket := func(n int) ratelimit.Limit { return ratelimit.TokenBucket(int64(n), time.Hour, int64(n)) }
	cfg := ratelimit.Config{Name: "api", Registry: (*core.Registry)(&r), Limit: bucket(1000), MaxWait: time.Millisecond}
	l := newLimiter(t, cfg)
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := map[string]int64{}
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				key, one := strconv.Itoa(i%3), l.Under([]string{"", "gold"}[i/4%2])
				var r ratelimit.Result
				var err error
				switch i % 4 {
				case 0:
					if r, err = one.Wait(t.Context(), key, 1); err != nil {
						require.ErrorIs(t, err, ratelimit.ErrLimited)
					}
				case 1:
					r = core.Must(one.TakeAtMost(t.Context(), key, 2))
				default:
					r = take(t, one, key, 1)
				}
				mu.Lock()
				granted[key] += r.Permits
				mu.Unlock()
				if g == 0 && i%50 == 0 {
					next := cfg
					if next.Limit = bucket(900 + i%100); i%100 == 0 {
						next.Limits = map[string]ratelimit.Limit{"gold": bucket(950)}
					}
					require.NoError(t, l.SetConfig(next))
				}
				if g == 1 && i%70 == 0 {
					require.NoError(t, l.SetKeyLimit("1", bucket(500)))
					_ = l.SetKeyLimit("1", ratelimit.Limit{})
				}
			}
		})
	}
	wg.Wait()
	for key, n := range granted {
		require.LessOrEqual(t, n, int64(1010), "key %s", key)
		least := int64(900)
		if key == "1" { // under its override a permit is twice the debt in time
			least = 450
		}
		require.GreaterOrEqual(t, n, least, "key %s", key)
	}
	e, _ := r.Get("ratelimit", "api")
	sum := 0.0
	for _, f := range e.Source.Figures() {
		if f.Name == "requests_total" {
			sum += f.N
		}
	}
	require.InDelta(t, 8*2000, sum, 0)
	require.EqualValues(t, 8*2000, l.Stats().Allowed+l.Stats().Rejected)
}

func TestSetLimitTwiceInOneWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10)})
		require.EqualValues(t, 9, take(t, l, "a", 1).Remaining)
		time.Sleep(10 * time.Second)
		ratelimittest.SetLimit(t, l, ratelimit.PerMinute(20))
		require.EqualValues(t, 19, take(t, l, "b", 1).Remaining, "its window begins now")
		time.Sleep(10 * time.Second)
		ratelimittest.SetLimit(t, l, ratelimit.PerMinute(3))
		require.EqualValues(t, 1, take(t, l, "a", 1).Remaining)
		require.EqualValues(t, 1, take(t, l, "b", 1).Remaining)
		require.EqualValues(t, 2, take(t, l, "c", 1).Remaining)
		time.Sleep(40 * time.Second) // a minute after the first
		require.EqualValues(t, 2, take(t, l, "a", 1).Remaining)
		require.EqualValues(t, 0, take(t, l, "b", 1).Remaining)
		require.False(t, take(t, l, "c", 3).Allowed)
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 1, take(t, l, "a", 1).Remaining)
		require.EqualValues(t, 2, take(t, l, "b", 1).Remaining)
	})
}

// A store that the limiter was given stays open, and keeps what other limiters have used.
func TestCloseOverAStoreThatStaysOpen(t *testing.T) {
	t.Parallel()
	store := openMemory(t)
	for _, limit := range []ratelimit.Limit{ratelimit.PerMinute(5), ratelimit.TokenBucket(5, time.Minute, 5), ratelimit.SlidingLog(5, time.Minute)} {
		l := newLimiter(t, ratelimit.Config{Name: limit.String(), Store: store, Limit: limit})
		require.True(t, take(t, l, "k", 1).Allowed)
		require.NoError(t, l.Close())
		_, err := l.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed, "%v", limit)
		_, err = l.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed, "%v", limit)
		again := newLimiter(t, ratelimit.Config{Name: limit.String(), Store: store, Limit: limit})
		require.EqualValues(t, 3, take(t, again, "k", 1).Remaining, "%v", limit)
	}
}

// A key whose joined limits come back at different times is told when the last of them allows the take under another limit.
func TestUnderAfterJoinedLimits(t *testing.T) {
	t.Parallel()
	second := time.Second
	window, log := ratelimit.FixedWindow(2, second), ratelimit.SlidingLog(2, 2*second)
	for _, c := range []struct {
		joined, under ratelimit.Limit
		n             int64
		wait          time.Duration
	}{
		{window.And(log), ratelimit.FixedWindow(1, 2*second), 1, 1500 * time.Millisecond},
		{log.And(window), ratelimit.FixedWindow(1, 2*second), 1, 1500 * time.Millisecond},
		{ratelimit.FixedWindow(2, 2*second).And(ratelimit.FixedWindow(2, 4*second)), ratelimit.SlidingLog(2, 4*second), 2, 3500 * time.Millisecond},
		{ratelimit.TokenBucket(2, second, 2).And(ratelimit.PerHour(100)), ratelimit.SlidingCounter(2, second), 2, time.Hour - second/2},
		{window.And(ratelimit.SlidingLog(9, 4*second)), ratelimit.SlidingLog(1, 2*second).And(ratelimit.FixedWindow(3, 3*second)), 1, 3500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: c.joined, Limits: map[string]ratelimit.Limit{"other": c.under}})
			require.True(t, take(t, l, "k", c.n).Allowed)
			time.Sleep(second / 2)
			r := take(t, l.Under("other"), "k", 1)
			require.Equal(t, c.wait, r.RetryAfter, "from %v to %v", c.joined, c.under)
			time.Sleep(r.RetryAfter)
			require.True(t, take(t, l.Under("other"), "k", 1).Allowed, "from %v to %v", c.joined, c.under)
		})
	}
}
