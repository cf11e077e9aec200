package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/registry"
)

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
		require.ErrorIs(t, closedTake(t, l), core.ErrClosed)
	})
}

func closedTake(tb testing.TB, l *ratelimit.Limiter) error {
	tb.Helper()
	_, err := l.Take(tb.Context(), "k", 1)
	return err
}

// A limiter of Under follows SetConfig: its limit changes, goes and comes back.
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

func TestLimiterOverride(t *testing.T) {
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
		require.EqualValues(t, 10, limitUnder(newNamed(t, ratelimit.Config{}).Override(ctx, func(c *ratelimit.Config) { c.Limit = ratelimit.PerHour(5) }), l, "k"))
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
		"requests_total result allowed": 2, "requests_total result throttled": 1, "requests_total result canceled": 0, "requests_total result error": 0,
		"requests_total limit gold result allowed": 1, "requests_total limit gold result throttled": 2,
		"requests_total limit slow result allowed": 2, "requests_total limit slow result throttled": 1,
		"limit_permits": 10, "limit_permits limit gold": 100, "limit_permits limit slow": 2,
	}, got)
	require.Equal(t, "allowed=5 rejected=4 keys=3", l.Stats().String())
}

// Each decision is counted once, whatever SetConfig does meanwhile.
func TestUnderWhileConfigsChange(t *testing.T) {
	t.Parallel()
	var r registry.Registry
	l := newNamed(t, ratelimit.Config{Name: "api", Registry: (*core.Registry)(&r)})
	given, takers := l.Config(), sync.WaitGroup{}
	for range 4 {
		takers.Go(func() {
			for i := range 1000 {
				if _, err := l.Under([]string{"", "gold", "slow"}[i%3]).Take(t.Context(), "k", 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 100 {
		cfg := given
		if i%2 == 0 {
			cfg.Limits = map[string]ratelimit.Limit{"gold": ratelimit.PerHour(int64(1 + i))}
		}
		require.NoError(t, l.SetConfig(cfg))
	}
	takers.Wait()
	e, _ := r.Get("ratelimit", "api")
	sum := 0.0
	for _, f := range e.Source.Figures() {
		if f.Name == "requests_total" {
			sum += f.N
		}
	}
	require.InDelta(t, 4000, sum, 0)
	require.EqualValues(t, 4000, l.Stats().Allowed+l.Stats().Rejected)
}
