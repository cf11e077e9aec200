package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// The bubble begins at midnight, UTC, on 1 January 2000.
func TestAlignedWindowsKeepToTheClock(t *testing.T) {
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

func TestARefusalDoesNotCount(t *testing.T) {
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

func TestAnotherLimitForEachCall(t *testing.T) {
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
func TestARefundIsCapped(t *testing.T) {
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

func TestTheCounterQuotesTheSameInstant(t *testing.T) {
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

func TestACounterBelowASecond(t *testing.T) {
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

func TestCosts(t *testing.T) {
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
	s := spec(l)
	if s.Burst == s.Permits {
		s.Burst = n
	}
	s.Permits = n
	return ratelimit.Limit(limits.Of(s))
}

func TestALogQuotesTheAgeOfTheBurst(t *testing.T) {
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

func TestTheBurstAtABorder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit ratelimit.Limit
		want  int
	}{
		{ratelimit.AlignedWindow(5, time.Second), 10},
		{ratelimit.PerSecond(5), 5}, // its window starts with the first of them
		{ratelimit.TokenBucket(5, time.Second, 5), 5},
		{ratelimit.SlidingWindow(5, time.Second, 10), 5},
		{ratelimit.SlidingCounter(5, time.Second), 5},
		{ratelimit.SlidingLog(5, time.Second), 5},
	} {
		t.Run(c.limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: c.limit})
				time.Sleep(999 * ms)
				granted := 0
				for range 2 {
					for range 10 {
						granted += int(take(t, l, "k", 1).Permits)
					}
					time.Sleep(ms)
				}
				require.Equal(t, c.want, granted)
			})
		})
	}
}

func TestASlidingWindowOfTwoSegments(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.SlidingWindow(1, 2*time.Second, 2)}, func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 1).Allowed)
		time.Sleep(time.Second)
		require.False(t, take(t, l, "k", 1).Allowed)
		time.Sleep(time.Second)
		require.True(t, take(t, l, "k", 1).Allowed)
	})
}

func TestRetryAfterIsTheTimeLeft(t *testing.T) {
	t.Parallel()
	const s = time.Second
	inBubbles(t, []ratelimit.Limit{ratelimit.FixedWindow(3, 20*s), ratelimit.AlignedWindow(3, 20*s), ratelimit.SlidingLog(3, 20*s), ratelimit.SlidingWindow(3, 20*s, 20)}, func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 3).Allowed)
		time.Sleep(19 * s)
		require.Equal(t, s, take(t, l, "k", 1).RetryAfter)
	})
	inBubbles(t, []ratelimit.Limit{ratelimit.SlidingWindow(10, 10*s, 10)}, func(t bubble) {
		l := t.l
		start := time.Now()
		for i, n := range []int64{3, 3, 4} {
			sleepTo(start, time.Duration(i)*s+500*ms)
			require.True(t, take(t, l, "k", n).Allowed)
		}
		sleepTo(start, 5500*ms)
		for n, free := range map[int64]time.Duration{1: 10 * s, 3: 10 * s, 4: 11 * s, 6: 11 * s, 7: 12 * s, 10: 12 * s} {
			require.Equal(t, free, time.Since(start)+take(t, l, "k", n).RetryAfter, "as many segments as free %d", n)
		}
	})
}

func TestSlidingLimitsRefuseTheSecondFive(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{
		ratelimit.SlidingWindow(5, time.Minute, 60), ratelimit.SlidingWindow(5, time.Minute, 2), ratelimit.SlidingCounter(5, time.Minute), ratelimit.SlidingLog(5, time.Minute),
	}, func(t bubble) {
		l := t.l
		time.Sleep(59 * time.Second)
		require.True(t, take(t, l, "k", 5).Allowed)
		time.Sleep(1500 * ms)
		require.False(t, take(t, l, "k", 5).Allowed)
	})
}

func TestASlidingWindowStepByStep(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.SlidingWindow(10, 3*time.Second, 3)}, func(t bubble) {
		l := t.l
		follow(t, l, []step{
			{500 * ms, 8, true, 2, 2500 * ms, 0},
			{1500 * ms, 2, true, 0, 2500 * ms, 0},
			{1600 * ms, 1, false, 0, 2400 * ms, 1400 * ms},
			{2000 * ms, 1, false, 0, 2000 * ms, 1000 * ms},
			{2500 * ms, 1, false, 0, 1500 * ms, 500 * ms},
			{3100 * ms, 8, true, 0, 2900 * ms, 0},
			{3100 * ms, 1, false, 0, 2900 * ms, 900 * ms},
			{4100 * ms, 2, true, 0, 2900 * ms, 0},
		})
	})
}
