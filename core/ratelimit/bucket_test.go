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

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

func TestABucketStepByStep(t *testing.T) {
	t.Parallel()
	const s, never = time.Second, ratelimit.Never
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(1, s, 5), ratelimit.TokenBucket(1, s, 5)}, func(t bubble) {
		l := t.l
		follow(t, l, []step{
			{0, 6, false, 5, 0, never},
			{0, 1, true, 4, s, 0},
			{0, 1, true, 3, 2 * s, 0},
			{0, 1, true, 2, 3 * s, 0},
			{0, 1, true, 1, 4 * s, 0},
			{0, 1, true, 0, 5 * s, 0},
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
		})
	})
}

func TestResetAndACostThatNeverFits(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 10)}, func(t bubble) {
		l := t.l
		follow(t, l, []step{{0, 1, true, 9, 100 * ms, 0}})
		require.NoError(t, l.Reset(t.Context(), "k"))
		follow(t, l, []step{
			{0, 1, true, 9, 100 * ms, 0},
			{0, 2, true, 7, 300 * ms, 0},
			{0, 7, true, 0, time.Second, 0},
			{0, 1000, false, 0, time.Second, ratelimit.Never},
		})
	})
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
		l := t.l
		take(t, l, "k", 1)
		r := takeAtMost(t, l, 2)
		require.EqualValues(t, []int64{2, 7}, []int64{r.Permits, r.Remaining})
		r = takeAtMost(t, l, 10)
		require.EqualValues(t, []int64{7, 0}, []int64{r.Permits, r.Remaining})
		r = takeAtMost(t, l, 1000)
		require.Zero(t, r.Permits)
		require.False(t, r.Allowed)
		require.Equal(t, 100*ms, r.RetryAfter)
		require.Equal(t, time.Second, r.FullAfter)
	})
}

func TestABurstOfThree(t *testing.T) {
	t.Parallel()
	const d, some = 100 * ms, time.Duration(-1)
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 3)}, func(t bubble) {
		l := t.l
		follow(t, l, []step{
			{0, 2, true, 1, some, 0},
			{0, 2, false, 1, some, d},
			{0, 1, true, 0, some, 0},
			{0, 1, false, 0, some, d},
			{d, 4, false, 1, some, ratelimit.Never},
			{2 * d, 1, true, 1, some, 0},
			{3 * d, 1, true, 1, some, 0},
			{4 * d, 1, true, 1, some, 0},
			{4 * d, 1, true, 0, some, 0},
			{4 * d, 1, false, 0, some, d},
			{9 * d, 3, true, 0, some, 0},
			{9 * d, 0, true, 0, some, 0},
		})
	})
}

func TestFiveOfFifteenAtOnce(t *testing.T) {
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

func TestRefusedAtTheseTimes(t *testing.T) {
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

func TestTakeAtMostOfThree(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 3)}, func(t bubble) {
		l := t.l
		require.EqualValues(t, 2, takeAtMost(t, l, 2).Permits)
		require.EqualValues(t, 1, takeAtMost(t, l, 2).Permits)
		require.EqualValues(t, 0, takeAtMost(t, l, 2).Permits)
		time.Sleep(100 * ms)
		require.EqualValues(t, 1, takeAtMost(t, l, 2).Permits)
	})
}

func TestALeakyBucketStepByStep(t *testing.T) {
	t.Parallel()
	const s, half, some = time.Second, 500 * ms, time.Duration(-1)
	for capacity, more := range map[int64]int64{10: 0, 20: 10} {
		t.Run(fmt.Sprint(capacity), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, 30*s, capacity)})
				follow(t, l, []step{
					{0, 1, true, 9 + more, 3 * s, 0},
					{s, 1, true, 8 + more, 5 * s, 0},
					{2 * s, 1, true, 7 + more, 7 * s, 0},
					{3*s + half, 0, true, 8 + more, some, 0},
					{6*s + half, 0, true, 9 + more, some, 0},
					{6*s + half, 9 + more, true, 0, some, 0},
					{6*s + half, 1, false, 0, some, 2*s + half},
					{9*s + half, 0, true, 1, some, 0},
					{69*s + half, 0, true, capacity, 0, 0},
				})
				if capacity > 10 {
					return
				}
				start := time.Now() // a minute later
				for i, c := range []struct {
					at   time.Duration
					cost int64
				}{{60 * s, 10}, {89 * s, 9}, {92 * s, 1}} {
					sleepTo(start, c.at)
					r := take(t, l, "k", c.cost)
					require.True(t, r.Allowed, "take %d", i)
					require.Zero(t, r.Remaining, "take %d", i)
				}
			})
		})
	}
}

func TestNothingIsCutOffAtHighRates(t *testing.T) {
	t.Parallel()
	const n = 600_000_000
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(n, time.Second, n)}, func(t bubble) {
		l := t.l
		follow(t, l, []step{{0, n, true, 0, time.Second, 0}, {600 * ms, 0, true, 360_000_000, 400 * ms, 0}})
	})
}

// What a store does about its own updates is its affair; here it fails for good.
func TestAStoreThatAlwaysFailsIsAnErrorNotASilentAllow(t *testing.T) {
	t.Parallel()
	store := &ratelimittest.Failing{Store: openMemory(t)}
	l := newLimiter(t, ratelimit.Config{Store: store, OnStoreError: ratelimit.Deny})
	store.Down()
	for name, op := range map[string]func() (ratelimit.Result, error){
		"Take":       func() (ratelimit.Result, error) { return l.Take(t.Context(), "k", 1) },
		"TakeAtMost": func() (ratelimit.Result, error) { return l.TakeAtMost(t.Context(), "k", 1) },
		"Wait":       func() (ratelimit.Result, error) { return l.Wait(t.Context(), "k", 1) },
		"Reserve":    func() (ratelimit.Result, error) { return l.Reserve(t.Context(), "k", 1, time.Second) },
	} {
		r, err := op()
		require.ErrorIs(t, err, ratelimit.ErrStore, name)
		require.ErrorIs(t, err, ratelimittest.ErrDown, name)
		require.Zero(t, r, name)
	}
	require.EqualValues(t, 4, l.Stats().StoreErrors)
	require.Zero(t, l.Stats().Allowed)
}

// A reservation that is given back before its time leaves no trace; one behind it
// keeps its place. 10 a second, burst 2, in tenths of a second.
func TestCanceledReservations(t *testing.T) {
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

func TestAReservationThatIsTooLongChangesNothing(t *testing.T) {
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

func TestADeadlineThatIsTooShortIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 3)}, func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 2).Allowed)
		for deadline, want := range map[time.Duration]error{100 * ms: ratelimit.ErrLimited, 200*ms - 1: ratelimit.ErrLimited} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			w := <-waitAt(ctx, l, 3)
			require.ErrorIs(t, w.err, want)
			require.Zero(t, w.took)
			cancel()
		}
		require.EqualValues(t, 1, mustPeek(t, l, "k").Remaining)
	})
}

// What was taken stays taken, in permits; waiters are served at the new rate.
func TestSetLimitWithWaiters(t *testing.T) {
	t.Parallel()
	const d = 100 * ms
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(5, time.Second, 2)}, func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 2).Allowed)
		first := waitAt(t.Context(), l, 2) // for t4
		second := waitAt(t.Context(), l, 2)
		time.Sleep(2 * d)
		require.NoError(t, l.SetLimit(ratelimit.TokenBucket(10, time.Second, 2)))
		third := waitAt(t.Context(), l, 1)
		require.Equal(t, 3*d, (<-first).took, "one permit is still used")
		require.Equal(t, 5*d, (<-second).took, "at the new rate; at the old one it were 8d")
		require.Equal(t, 4*d, (<-third).took, "from 2d to 6d, behind both")
	})
}

func TestShapers(t *testing.T) {
	t.Parallel()
	const s = time.Second
	// starts are the times at which busy callers are served, up to a time.
	starts := func(t *testing.T, limit ratelimit.Limit, callers int, until time.Duration) []time.Duration {
		t.Helper()
		l := newLimiter(t, ratelimit.Config{Limit: limit, MaxWait: -1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var all []time.Duration
		var wg sync.WaitGroup
		start := time.Now()
		for range callers {
			wg.Go(func() {
				for {
					if _, err := l.Wait(ctx, "k", 1); err != nil {
						return
					}
					mu.Lock()
					all = append(all, time.Since(start))
					mu.Unlock()
				}
			})
		}
		sleepTo(start, until)
		synctest.Wait()
		cancel()
		wg.Wait()
		return all
	}
	count := func(all []time.Duration, until time.Duration) (n int) {
		for _, at := range all {
			if at <= until {
				n++
			}
		}
		return n
	}
	t.Run("100 a second, 4 callers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := starts(t, ratelimit.TokenBucket(100, s, 1), 4, 3*s)
			for i, at := range all {
				require.Equal(t, time.Duration(i)*10*ms, at)
			}
			for n := 1; n <= 3; n++ {
				require.Equal(t, 100*n, count(all, time.Duration(n)*s-1))
			}
		})
	})
	t.Run("7 a minute", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := starts(t, ratelimit.TokenBucket(7, time.Minute, 1), 2, 2*time.Minute)
			require.Equal(t, []int{1, 7, 8, 14, 15}, []int{count(all, s), count(all, 60*s-1), count(all, 60*s), count(all, 120*s-1), count(all, 120*s)})
		})
	})
	t.Run("three at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, []time.Duration{0, 100 * ms, 200 * ms}, starts(t, ratelimit.TokenBucket(10, s, 1), 3, 299*ms))
		})
	})
	t.Run("a slack of one", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, s, 2), MaxWait: -1})
			start := time.Now()
			sleepTo(start, 1)
			require.True(t, take(t, l, "k", 1).Allowed)
			sleepTo(start, 2*s+1)
			var at []time.Duration
			for range 4 {
				_, err := l.Wait(t.Context(), "k", 1)
				require.NoError(t, err)
				at = append(at, time.Since(start))
			}
			require.Equal(t, []time.Duration{2*s + 1, 2*s + 1, 3*s + 1, 4*s + 1}, at, "3 by 3s, 5 by 10s")
		})
	})
}
