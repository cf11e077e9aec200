package ratelimit_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

const ms = time.Millisecond

// every is a limit of n permits in a period, by each algorithm.
func every(n int64, period time.Duration) []ratelimit.Limit {
	return []ratelimit.Limit{
		ratelimit.FixedWindow(n, period), ratelimit.AlignedWindow(n, period), ratelimit.TokenBucket(n, period, n),
		ratelimit.SlidingWindow(n, period, 10), ratelimit.SlidingCounter(n, period), ratelimit.SlidingLog(n, period),
	}
}

// A bubble is a test in virtual time, and its limiter.
type bubble struct {
	*testing.T
	l *ratelimit.Limiter
}

// inBubbles runs a test for each limit, in virtual time.
func inBubbles(t *testing.T, limits []ratelimit.Limit, f func(t bubble)) {
	t.Helper()
	for _, limit := range limits {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(bubble{t, newLimiter(t, ratelimit.Config{Limit: limit, MaxWait: -1})}) })
		})
	}
}

// sleepTo sleeps until a time after start.
func sleepTo(start time.Time, d time.Duration) { time.Sleep(time.Until(start.Add(d))) }

// mustPeek looks at a key.
func mustPeek(tb testing.TB, l *ratelimit.Limiter, key string) ratelimit.Result {
	tb.Helper()
	r, err := l.Peek(tb.Context(), key)
	require.NoError(tb, err)
	return r
}

func reserve(tb testing.TB, l *ratelimit.Limiter, n int64, most time.Duration) ratelimit.Result {
	tb.Helper()
	r, err := l.Reserve(tb.Context(), "k", n, most)
	require.NoError(tb, err)
	return r
}

func refund(tb testing.TB, l *ratelimit.Limiter, r ratelimit.Result) ratelimit.Result {
	tb.Helper()
	require.NoError(tb, l.Refund(tb.Context(), r))
	r, err := l.Peek(tb.Context(), "k")
	require.NoError(tb, err)
	return r
}

// waitAt waits in a goroutine and tells how long it took, or that it failed.
func waitAt(ctx context.Context, l *ratelimit.Limiter, n int64) <-chan waited {
	done := make(chan waited, 1)
	start := time.Now()
	go func() {
		r, err := l.Wait(ctx, "k", n)
		done <- waited{r, err, time.Since(start)}
	}()
	synctest.Wait() // it has its place
	return done
}

type waited struct {
	r    ratelimit.Result
	err  error
	took time.Duration
}

// A step is a take at a time and what has to come of it.
type step struct {
	at    time.Duration
	cost  int64
	ok    bool
	left  int64
	full  time.Duration // -1: whatever
	retry time.Duration
}

func follow(tb testing.TB, l *ratelimit.Limiter, steps []step) {
	tb.Helper()
	start := time.Now()
	for i, s := range steps {
		sleepTo(start, s.at)
		r := take(tb, l, "k", s.cost)
		if s.full < 0 {
			r.FullAfter = s.full
		}
		got := step{s.at, s.cost, r.Allowed, r.Remaining, r.FullAfter, r.RetryAfter}
		require.Equal(tb, s, got, "step %d", i)
	}
}

func spec(l ratelimit.Limit) limits.Spec { return limits.Limit(l).Specs()[0] }

// parts are the limits that And has joined.
func parts(l ratelimit.Limit) (all []ratelimit.Limit) {
	for _, s := range limits.Limit(l).Specs() {
		all = append(all, ratelimit.Limit(limits.Of(s)))
	}
	return all
}

// Steps of one key under a limit, one after the other.
func TestTakeSteps(t *testing.T) {
	t.Parallel()
	const s, d, half, some, never = time.Second, 100 * ms, 500 * ms, time.Duration(-1), time.Duration(-1)
	for name, c := range map[string]struct {
		limit ratelimit.Limit
		steps []step
	}{
		"bucket": {ratelimit.TokenBucket(1, s, 5), []step{
			{0, 6, false, 5, 0, never},
			{0, 1, true, 4, s, 0},
			{0, 1, true, 3, 2 * s, 0},
			{0, 3, true, 0, 5 * s, 0},
			{0, 1, false, 0, 5 * s, s},
			{3000 * ms, 1, true, 2, 3000 * ms, 0},
			{3100 * ms, 1, true, 1, 3900 * ms, 0},
			{4000 * ms, 1, true, 1, 4000 * ms, 0},
			{8000 * ms, 1, true, 4, 1000 * ms, 0},
			{9500 * ms, 1, true, 4, 1000 * ms, 0},
			{9500 * ms, 0, true, 4, 1000 * ms, 0},
			{9500 * ms, 2, true, 2, 3000 * ms, 0},
			{9500 * ms, 5, false, 2, 3000 * ms, 3 * s},
			{15 * s, 6, false, 5, 0, never},
		}},
		"burst of three": {ratelimit.TokenBucket(10, s, 3), []step{
			{0, 2, true, 1, some, 0},
			{0, 2, false, 1, some, d},
			{0, 1, true, 0, some, 0},
			{0, 1, false, 0, some, d},
			{d, 4, false, 1, some, never},
			{2 * d, 1, true, 1, some, 0},
			{4 * d, 1, true, 2, some, 0},
			{4 * d, 2, true, 0, some, 0},
			{4 * d, 1, false, 0, some, d},
			{9 * d, 3, true, 0, some, 0},
			{9 * d, 0, true, 0, some, 0},
		}},
		"leaky bucket": {ratelimit.TokenBucket(10, 30*s, 10), []step{
			{0, 1, true, 9, 3 * s, 0},
			{s, 1, true, 8, 5 * s, 0},
			{2 * s, 1, true, 7, 7 * s, 0},
			{3*s + half, 0, true, 8, some, 0},
			{6*s + half, 0, true, 9, some, 0},
			{6*s + half, 9, true, 0, some, 0},
			{6*s + half, 1, false, 0, some, 2*s + half},
			{9*s + half, 0, true, 1, some, 0},
			{69*s + half, 10, true, 0, 30 * s, 0},
			{96*s + half, 9, true, 0, 30 * s, 0},
			{99*s + half, 1, true, 0, 30 * s, 0},
		}},
		"high rate": {ratelimit.TokenBucket(600_000_000, s, 600_000_000), []step{
			{0, 600_000_000, true, 0, s, 0},
			{600 * ms, 0, true, 360_000_000, 400 * ms, 0},
		}},
		"sliding window": {ratelimit.SlidingWindow(10, 3*s, 3), []step{
			{500 * ms, 8, true, 2, 2500 * ms, 0},
			{1500 * ms, 2, true, 0, 2500 * ms, 0},
			{1600 * ms, 1, false, 0, 2400 * ms, 1400 * ms},
			{2000 * ms, 1, false, 0, 2000 * ms, 1000 * ms},
			{2500 * ms, 1, false, 0, 1500 * ms, 500 * ms},
			{3100 * ms, 8, true, 0, 2900 * ms, 0},
			{3100 * ms, 1, false, 0, 2900 * ms, 900 * ms},
			{4100 * ms, 2, true, 0, 2900 * ms, 0},
		}},
		"two segments": {ratelimit.SlidingWindow(1, 2*s, 2), []step{
			{0, 1, true, 0, some, 0},
			{s, 1, false, 0, some, s},
			{2 * s, 1, true, 0, some, 0},
		}},
		"segments that a cost needs": {ratelimit.SlidingWindow(10, 10*s, 10), []step{
			{500 * ms, 3, true, 7, some, 0},
			{1500 * ms, 3, true, 4, some, 0},
			{2500 * ms, 4, true, 0, some, 0},
			{5500 * ms, 3, false, 0, some, 4500 * ms},
			{5500 * ms, 4, false, 0, some, 5500 * ms},
			{5500 * ms, 6, false, 0, some, 5500 * ms},
			{5500 * ms, 7, false, 0, some, 6500 * ms},
			{5500 * ms, 10, false, 0, some, 6500 * ms},
		}},
		"log": {ratelimit.SlidingLog(10, time.Minute), []step{
			{0, 4, true, 6, time.Minute, 0},
			{0, 6, true, 0, time.Minute, 0},
			{20 * s, 1, false, 0, 40 * s, 40 * s},
		}},
		"counter": {ratelimit.SlidingCounter(3, half), []step{
			{0, 3, true, 0, some, 0},
			{400 * ms, 1, false, 0, some, 266_666_667},
			{600 * ms, 1, false, 0, some, 66_666_667},
			{667 * ms, 1, true, 0, some, 0},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { follow(t, newLimiter(t, ratelimit.Config{Limit: c.limit}), c.steps) })
		})
	}
}

func TestTakeAtTimes(t *testing.T) {
	t.Parallel()
	const hundred = 100 * ms
	for _, c := range []struct {
		burst   int64
		refill  time.Duration // of one
		n       int
		gap     time.Duration
		refused []time.Duration
	}{
		{5, hundred, 10, 25 * ms, []time.Duration{150 * ms, 175 * ms, 225 * ms}},
		{10, hundred, 13, 25 * ms, nil},
		{10, hundred, 15, 33 * ms, []time.Duration{462 * ms}},
		{10, hundred, 16, 33 * ms, []time.Duration{462 * ms, 495 * ms}},
		{10, 10 * ms, 20, 10 * ms, nil},
		{1, 200 * ms, 10, hundred, []time.Duration{100 * ms, 300 * ms, 500 * ms, 700 * ms, 900 * ms}},
	} {
		t.Run(fmt.Sprintf("%d of burst %d", c.n, c.burst), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, c.refill, c.burst)})
				start := time.Now()
				var refused []time.Duration
				for i := range c.n {
					sleepTo(start, time.Duration(i)*c.gap)
					if !take(t, l, "k", 1).Allowed {
						refused = append(refused, time.Since(start))
					}
				}
				require.Equal(t, c.refused, refused)
			})
		})
	}
}

func takeAtMost(tb testing.TB, l *ratelimit.Limiter, n int64) ratelimit.Result {
	tb.Helper()
	r, err := l.TakeAtMost(tb.Context(), "k", n)
	require.NoError(tb, err)
	return r
}

func TestTakeAtMost(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 10)}, func(t bubble) {
		for _, want := range []struct{ n, permits, left int64 }{{2, 2, 8}, {7, 7, 1}, {10, 1, 0}, {1000, 0, 0}} {
			r := takeAtMost(t, t.l, want.n)
			require.Equal(t, []int64{want.permits, want.left}, []int64{r.Permits, r.Remaining})
			require.Equal(t, want.permits > 0, r.Allowed)
		}
		r := takeAtMost(t, t.l, 5)
		require.Equal(t, []time.Duration{100 * ms, time.Second}, []time.Duration{r.RetryAfter, r.FullAfter})
		time.Sleep(100 * ms)
		require.EqualValues(t, 1, takeAtMost(t, t.l, 2).Permits)
	})
}

func TestTakeConcurrent(t *testing.T) {
	t.Parallel()
	inBubbles(t, append(every(5, time.Second), ratelimit.TokenBucket(1, time.Second, 5)), func(t bubble) {
		l := t.l
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 15 {
			wg.Go(func() { granted.Add(take(t, l, "k", 1).Permits) })
		}
		wg.Wait()
		require.EqualValues(t, 5, granted.Load())
	})
}

func TestResetOfOneKey(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(2, time.Hour), func(t bubble) {
		l := t.l
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 2 {
					granted.Add(take(t, l, "a", 1).Permits)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 2, granted.Load(), "one key, whoever asks")
		require.True(t, take(t, l, "b", 2).Allowed)
		require.NoError(t, l.Reset(t.Context(), "a"))
		require.True(t, take(t, l, "a", 2).Allowed)
		require.False(t, take(t, l, "b", 1).Allowed)
	})
}

func TestTakeCosts(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(5, time.Minute), func(t bubble) {
		for cost, want := range map[int64][]int64{0: {5, 5}, 1: {4, 3, 2, 1, 0, -1}, 2: {3, 1, -1}, 3: {2, -2}, 6: {-5}} {
			for i, left := range want { // after a refusal it is negative
				r := take(t, t.l, fmt.Sprint(cost), cost)
				require.Equal(t, left >= 0, r.Allowed, "cost %d, %d", cost, i)
				if r.Allowed {
					require.Equal(t, left, r.Remaining, "cost %d, %d", cost, i)
				}
			}
		}
		_, err := t.l.Take(t.Context(), "k", -1)
		require.ErrorIs(t, err, core.ErrConfig)
		require.True(t, take(t, t.l, "k", 3).Allowed)
		require.False(t, take(t, t.l, "k", 3).Allowed)
		require.Zero(t, take(t, t.l, "k", 2).Remaining) // a refusal has taken nothing
	})
}

// What a key has taken counts under each limit.
func TestTakeUnderLimitsInTurn(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]func(n int64) ratelimit.Limit{
		"fixed window": ratelimit.PerHour,
		"aligned":      func(n int64) ratelimit.Limit { return ratelimit.AlignedWindow(n, time.Hour) },
		"sliding":      func(n int64) ratelimit.Limit { return ratelimit.SlidingWindow(n, time.Hour, 6) },
		"counter":      func(n int64) ratelimit.Limit { return ratelimit.SlidingCounter(n, time.Hour) },
		"log":          func(n int64) ratelimit.Limit { return ratelimit.SlidingLog(n, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := map[string]ratelimit.Limit{}
				for _, n := range []int64{1, 3, 4, 5, 10, 100, 200} {
					limits[fmt.Sprint(n)] = kind(n)
				}
				l := newLimiter(t, ratelimit.Config{Limits: limits})
				for i, c := range []struct{ limit, left int64 }{{100, 99}, {100, 98}, {10, 7}, {10, 6}, {200, 195}} {
					r := take(t, l.Under(fmt.Sprint(c.limit)), "gubernator", 1)
					require.True(t, r.Allowed, i)
					require.Equal(t, c.left, r.Remaining, i)
				}
				require.Zero(t, mustPeek(t, l.Under("4"), "gubernator").Remaining) // not negative
				limit := []string{"3", "1", "3", "3", "3", "5", "5", "5"}
				for i, ok := range []bool{true, false, true, true, false, true, true, false} {
					r := take(t, l.Under(limit[i]), "httprate", 1)
					require.Equal(t, ok, r.Allowed, i)
					require.GreaterOrEqual(t, r.Remaining, int64(0), i)
				}
			})
		})
	}
}

// The bubble begins at midnight, UTC, on 1 January 2000.
func TestAlignedWindowByTheClock(t *testing.T) {
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

// A counter quotes one instant, whenever it is asked.
func TestCounterRetryAfter(t *testing.T) {
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
				for i := range 100 {
					sleepTo(start, (want-1)*time.Duration(i)/99)
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

func TestWindowRetryAfter(t *testing.T) {
	t.Parallel()
	const s = time.Second
	all := []ratelimit.Limit{ratelimit.FixedWindow(3, 20*s), ratelimit.AlignedWindow(3, 20*s), ratelimit.SlidingLog(3, 20*s), ratelimit.SlidingWindow(3, 20*s, 20)}
	inBubbles(t, all, func(t bubble) {
		require.True(t, take(t, t.l, "k", 3).Allowed)
		time.Sleep(19 * s)
		require.Equal(t, s, take(t, t.l, "k", 1).RetryAfter)
	})
}

func TestTakeAroundABorder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit ratelimit.Limit
		want  int
	}{
		{ratelimit.AlignedWindow(5, time.Second), 10},
		{ratelimit.PerSecond(5), 5}, // its window starts with the first of them
		{ratelimit.TokenBucket(5, time.Second, 5), 5},
		{ratelimit.SlidingWindow(5, time.Second, 10), 5},
		{ratelimit.SlidingWindow(5, time.Second, 2), 5},
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

// There are no negative costs: what comes back names the take, and never makes a key richer than its limit.
func TestRefundIsCapped(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(2, time.Minute), func(t bubble) {
		r := take(t, t.l, "k", 1)
		require.EqualValues(t, 2, refund(t, t.l, r).Remaining)
		require.EqualValues(t, 2, refund(t, t.l, r).Remaining) // once more than it should be
		require.Zero(t, take(t, t.l, "k", 2).Remaining)
		require.False(t, take(t, t.l, "k", 1).Allowed)
	})
}

func TestReserveOnePerCycle(t *testing.T) {
	t.Parallel()
	const c = time.Second
	inBubbles(t, []ratelimit.Limit{ratelimit.FixedWindow(1, c), ratelimit.AlignedWindow(1, c), ratelimit.TokenBucket(1, c, 1), ratelimit.SlidingLog(1, c)}, func(t bubble) {
		l := t.l
		time.Sleep(c)
		require.True(t, take(t, l, "k", 1).Allowed)
		require.Equal(t, c, reserve(t, l, 1, c).Wait)
		for range 2 {
			r := reserve(t, l, 1, c)
			require.False(t, r.Allowed)
			require.Equal(t, 2*c, r.RetryAfter)
			require.Zero(t, r.Remaining, "never negative")
		}
		time.Sleep(5*c + 10)
		require.EqualValues(t, 1, mustPeek(t, l, "k").Remaining)
	})
}

func TestReserveAhead(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.PerSecond(10), ratelimit.TokenBucket(10, time.Second, 10), ratelimit.SlidingLog(10, time.Second)}, func(t bubble) {
		l := t.l
		r := reserve(t, l, 25, 30*time.Second)
		require.False(t, r.Allowed, "it never fits")
		require.Equal(t, time.Duration(-1), r.RetryAfter)
		require.EqualValues(t, 10, r.Remaining)
		for i := range 3 {
			require.Equal(t, time.Duration(i)*time.Second, reserve(t, l, 10, 30*time.Second).Wait)
		}
	})
}

// A look sweeps the table, which rewrites the counts of joined limits.
func TestReserveOfASweptKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 60_000
		limit := ratelimit.FixedWindow(n, time.Minute+1)
		l := newLimiter(t, ratelimit.Config{Limit: limit.And(ratelimit.SlidingCounter(1<<30, time.Hour))})
		require.True(t, take(t, l, "k", n).Allowed)
		require.True(t, reserve(t, l, n, spec(limit).Period).Allowed)
		time.Sleep(spec(limit).Period + time.Second)
		r := take(t, l, "k", n)
		require.Equal(t, spec(limit).Period-time.Second, r.RetryAfter)
		time.Sleep(r.RetryAfter - time.Second)
		require.Equal(t, time.Second, mustPeek(t, l, "k").NextAfter)
		time.Sleep(time.Second)
		require.True(t, take(t, l, "k", n).Allowed)
	})
}

// A reservation that is given back before its time leaves no trace; one behind it
// keeps its place. 10 a second, burst 2, in tenths of a second.
func TestReserveCanceled(t *testing.T) {
	t.Parallel()
	const d = 100 * ms
	for name, f := range map[string]func(t bubble){
		"the last": func(t bubble) {
			l := t.l
			require.Zero(t, reserve(t, l, 2, time.Second).Wait)
			r := reserve(t, l, 2, time.Second)
			require.Equal(t, 2*d, r.Wait)
			time.Sleep(d)
			refund(t, l, r)
			require.Equal(t, d, reserve(t, l, 2, time.Second).Wait)
		},
		"in the middle": func(t bubble) {
			l := t.l
			require.Zero(t, reserve(t, l, 2, time.Second).Wait)
			r := reserve(t, l, 2, time.Second)
			require.Equal(t, 2*d, r.Wait)
			require.Equal(t, 3*d, reserve(t, l, 1, time.Second).Wait)
			time.Sleep(2 * d)
			refund(t, l, r)
			require.Equal(t, 2*d, reserve(t, l, 2, time.Second).Wait)
		},
		"too late": func(t bubble) { // a wait that has ended cannot be canceled
			l := t.l
			require.True(t, take(t, l, "k", 2).Allowed)
			ctx, cancel := context.WithCancel(t.Context())
			w := <-waitAt(ctx, l, 2)
			require.NoError(t, w.err)
			require.Equal(t, 2*d, w.took)
			time.Sleep(d)
			cancel()
			synctest.Wait()
			require.Equal(t, d, reserve(t, l, 2, time.Second).Wait)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f(bubble{t, newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Second, 2), MaxWait: -1})})
			})
		})
	}
}

func TestReserveTooFarAhead(t *testing.T) {
	t.Parallel()
	const d = 100 * ms
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 2)}, func(t bubble) {
		l := t.l
		require.Zero(t, reserve(t, l, 2, d).Wait)
		require.Equal(t, d, reserve(t, l, 1, d).Wait)
		before := mustPeek(t, l, "k")
		for range 3 {
			r := reserve(t, l, 1, d)
			require.False(t, r.Allowed)
			require.Zero(t, r.Permits)
			require.Equal(t, 2*d, r.RetryAfter)
		}
		require.Equal(t, before, mustPeek(t, l, "k"))
	})
}

func TestDrainUnderEachLimit(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(10, time.Minute), func(t bubble) {
		require.True(t, take(t, t.l, "k", 1).Allowed)
		r, err := t.l.Drain(t.Context(), "k")
		require.NoError(t, err)
		require.EqualValues(t, 9, r.Permits)
		r = take(t, t.l, "k", 1)
		require.False(t, r.Allowed)
		require.Zero(t, r.Remaining)
	})
}
