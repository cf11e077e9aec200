package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// The printed scenarios of the references, by source and number, in virtual time.
// Those that have a test elsewhere are not repeated. docs/ has the list of those that
// were decided differently.

// The bubble begins at midnight, UTC, on 1 January 2000.
func TestRateLimiting33_AlignedWindowsKeepToTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		unix   int64
		period time.Duration
		reset  time.Duration
	}{
		{1_000_000, time.Hour, 800 * time.Second},
		{1_000_000, 24 * time.Hour, 36_800 * time.Second},
		{1234, time.Minute, 26 * time.Second},
		{1234, time.Second, time.Second},
	} {
		t.Run(fmt.Sprintf("%v of %d", c.period, c.unix), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.AlignedWindow(10, c.period)})
				time.Sleep(time.Duration(c.unix) * time.Second) // as long into the first day
				late := newLimiter(t, ratelimit.Config{Limit: ratelimit.AlignedWindow(10, c.period)})
				for _, l := range []*ratelimit.Limiter{l, late} {
					require.Equal(t, c.reset, take(t, l, "k", 10).FullAfter)
					require.Equal(t, c.reset, take(t, l, "k", 1).RetryAfter)
				}
				time.Sleep(c.reset - 1)
				require.False(t, take(t, l, "k", 1).Allowed)
				time.Sleep(time.Nanosecond)
				require.Equal(t, c.period, take(t, l, "k", 10).FullAfter, "whole, at the border")
			})
		})
	}
}

func TestRateLimiting35_ARefusalDoesNotCount(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(10, time.Minute), func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 5).Allowed)
		r := take(t, l, "k", 8)
		require.False(t, r.Allowed)
		require.EqualValues(t, 5, r.Remaining)
		r = take(t, l, "k", 5)
		require.True(t, r.Allowed)
		require.Zero(t, r.Remaining)
	})
}

func TestRateLimiting37_AnotherLimitForEachCall(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(n int64) ratelimit.Limit{
		"fixed window": ratelimit.PerHour,
		"aligned":      func(n int64) ratelimit.Limit { return ratelimit.AlignedWindow(n, time.Hour) },
		"sliding":      func(n int64) ratelimit.Limit { return ratelimit.SlidingWindow(n, time.Hour, 6) },
		"counter":      func(n int64) ratelimit.Limit { return ratelimit.SlidingCounter(n, time.Hour) },
		"log":          func(n int64) ratelimit.Limit { return ratelimit.SlidingLog(n, time.Hour) },
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: kind(100)})
				with := func(n int64) *ratelimit.Limiter {
					view, err := l.WithLimit(kind(n))
					require.NoError(t, err)
					return view
				}
				for i, c := range []struct{ limit, left int64 }{{100, 99}, {100, 98}, {10, 7}, {10, 6}, {200, 195}} {
					r := take(t, with(c.limit), "k", 1)
					require.True(t, r.Allowed, "gubernator %d", i)
					require.Equal(t, c.left, r.Remaining, "gubernator %d", i)
				}
				require.Zero(t, mustPeek(t, with(4), "k").Remaining, "never negative")
				limits := []int64{3, 1, 3, 3, 3, 5, 5, 5}
				for i, ok := range []bool{true, false, true, true, false, true, true, false} {
					r := take(t, with(limits[i]), "httprate", 1)
					require.Equal(t, ok, r.Allowed, "httprate %d", i)
					require.GreaterOrEqual(t, r.Remaining, int64(0), "httprate %d", i)
				}
			})
		})
	}
}

// There are no negative costs: what comes back names the take, and never makes a key
// richer than its limit.
func TestRateLimiting39_ARefundIsCapped(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(2, time.Minute), func(t bubble) {
		l := t.l
		_, err := l.Take(t.Context(), "k", -1)
		require.ErrorIs(t, err, core.ErrConfig)
		r := take(t, l, "k", 1)
		require.EqualValues(t, 2, refund(t, l, r).Remaining)
		require.EqualValues(t, 2, refund(t, l, r).Remaining, "once more than it should be")
		require.Equal(t, ratelimit.Never, take(t, l, "k", 4).RetryAfter)
		require.Zero(t, take(t, l, "k", 2).Remaining)
		require.False(t, take(t, l, "k", 1).Allowed)
	})
}

func TestRateLimiting41_TheCounterQuotesTheSameInstant(t *testing.T) {
	t.Parallel()
	const w = time.Second
	for n, want := range map[int64]time.Duration{1: 2 * w, 2: 1500 * ms, 3: 1_333_333_334, 4: 1250 * ms} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.SlidingCounter(n, w)})
				start := time.Now()
				for range n {
					require.True(t, take(t, l, "k", 1).Allowed)
				}
				for i := range 1000 {
					sleepTo(start, (want-1)*time.Duration(i)/999)
					r := take(t, l, "k", 1)
					require.False(t, r.Allowed)
					require.Equal(t, want, time.Since(start)+r.RetryAfter)
				}
				sleepTo(start, want)
				require.True(t, take(t, l, "k", 1).Allowed)
			})
		})
	}
}

func TestRateLimiting43_ACounterBelowASecond(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.SlidingCounter(3, 500*ms)}, func(t bubble) {
		l := t.l
		start := time.Now()
		require.True(t, take(t, l, "k", 3).Allowed)
		for _, c := range []struct {
			at time.Duration
			ok bool
		}{{400 * ms, false}, {600 * ms, false}, {667 * ms, true}} {
			sleepTo(start, c.at)
			require.Equal(t, c.ok, take(t, l, "k", 1).Allowed, "at %v", c.at)
		}
	})
}

func TestRateLimiting45_Costs(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(3, time.Minute), func(t bubble) {
		l := t.l
		for cost, want := range map[int64][]bool{0: {true, true, true, true}, 1: {true, true, true, false}, 2: {true, false, false}, 4: {false, false}} {
			for i, ok := range want {
				require.Equal(t, ok, take(t, l, fmt.Sprint(cost), cost).Allowed, "cost %d, %d", cost, i)
			}
		}
		five, err := l.WithLimit(withPermits(l.Limit(), 5))
		require.NoError(t, err)
		left := []int64{3, 1, 0, 0, 0, 0}
		for i, cost := range []int64{2, 2, 1, 2, 10, 1} {
			require.Equal(t, left[i], take(t, five, "headers", cost).Remaining, "%d", i)
		}
	})
}

func withPermits(l ratelimit.Limit, n int64) ratelimit.Limit {
	if l.Burst == l.Permits {
		l.Burst = n
	}
	l.Permits = n
	return l
}

func TestRateLimiting49_ALogQuotesTheAgeOfTheBurst(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.SlidingLog(10, time.Minute)}, func(t bubble) {
		l := t.l
		for range 10 {
			require.True(t, take(t, l, "k", 1).Allowed)
		}
		time.Sleep(20 * time.Second)
		require.Equal(t, 40*time.Second, take(t, l, "k", 1).RetryAfter)
	})
}
