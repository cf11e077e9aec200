package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/ratelimittest"
)

// The printed scenarios of the references, by source and number, in virtual time.
// Those that have a test elsewhere are not repeated. docs/ has the list of those that
// were decided differently.

func TestPolly47_ReservationsOfOnePerCycle(t *testing.T) {
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

func TestPolly49_ReservationsAheadAndACostAboveTheCapacity(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.PerSecond(10), ratelimit.TokenBucket(10, time.Second, 10), ratelimit.SlidingLog(10, time.Second)}, func(t bubble) {
		l := t.l
		r := reserve(t, l, 25, 30*time.Second)
		require.False(t, r.Allowed, "it never fits")
		require.Equal(t, ratelimit.Never, r.RetryAfter)
		require.EqualValues(t, 10, r.Remaining)
		for i := range 3 {
			require.Equal(t, time.Duration(i)*time.Second, reserve(t, l, 10, 30*time.Second).Wait)
		}
	})
}

func TestPolly53_TheBurstAtABorder(t *testing.T) {
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
						granted += int(take(t, l, "k", 1).Granted)
					}
					time.Sleep(ms)
				}
				require.Equal(t, c.want, granted)
			})
		})
	}
}

func TestPolly55_ASlidingWindowOfTwoSegments(t *testing.T) {
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

func TestPolly57_RetryAfterIsTheTimeLeft(t *testing.T) {
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

// An upstream that answers 429 drains the key. The count of what was drained is right.
func TestPolly59_ADrainAfterA429(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(10, time.Minute), func(t bubble) {
		l := t.l
		status, err := ratelimit.Do(t.Context(), l, func(context.Context) (int, error) { return 429, nil })
		require.NoError(t, err)
		require.Equal(t, 429, status)
		r, err := l.Drain(t.Context(), "")
		require.NoError(t, err)
		require.EqualValues(t, 9, r.Granted)
		r = take(t, l, "", 1)
		require.False(t, r.Allowed)
		require.Zero(t, r.Remaining)
	})
}

// Idle keys go when there is no room, and never one that somebody waits for.
func TestPolly61_IdleKeysGoAndThoseInUseStay(t *testing.T) {
	t.Parallel()
	for _, limit := range every(1, time.Minute) {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: limit, MaxKeys: 100, MaxWait: -1})
				flood := func(name string) {
					for i := range 500 {
						take(t, l, fmt.Sprint(name, i), 1)
					}
				}
				flood("idle")
				time.Sleep(time.Hour) // all of them have got all back
				take(t, l, "k", 1)
				due := take(t, l, "k", 1).RetryAfter
				first := waitAt(t.Context(), l, 1)
				flood("more")
				require.LessOrEqual(t, l.Stats().Keys, 107, "idle ones have gone")
				time.Sleep(due - 1)
				require.Empty(t, first)
				w := <-first
				require.NoError(t, w.err)
				require.Equal(t, due, w.took, "it was not forgotten, and not made to wait longer")
				require.False(t, take(t, l, "k", 1).Allowed)
				time.Sleep(time.Hour)
				require.True(t, take(t, l, "idle1", 1).Allowed, "as new")
			})
		})
	}
}

func TestPolly63_AChainTakesOfAllOrOfNone(t *testing.T) {
	t.Parallel()
	store := func() *ratelimittest.Failing { return &ratelimittest.Failing{Store: openMemory(t)} }
	first := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	second := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	chain := ratelimit.Chain{{Limiter: first, Key: "k"}, {Limiter: second, Key: "k"}}

	require.True(t, take(t, second, "k", 1).Allowed)
	r, err := chain.Take(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.Equal(t, 1, r.Link)
	require.EqualValues(t, 1, mustPeek(t, first, "k").Remaining, "refused by the second: the first is no poorer")

	down := store()
	broken := newLimiter(t, ratelimit.Config{Store: down, OnStoreError: ratelimit.Deny})
	down.Down()
	_, err = ratelimit.Chain{{Limiter: first, Key: "k"}, {Limiter: broken}}.Take(t.Context(), 1)
	require.ErrorIs(t, err, ratelimittest.ErrDown)
	require.EqualValues(t, 1, mustPeek(t, first, "k").Remaining, "failed by the second: the first is no poorer")

	require.NoError(t, second.Reset(t.Context(), "k"))
	r, err = chain.Take(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	require.NoError(t, chain.Refund(t.Context(), r))
	require.EqualValues(t, 1, mustPeek(t, first, "k").Remaining)
	require.EqualValues(t, 1, mustPeek(t, second, "k").Remaining)

	var stores []*ratelimittest.Failing
	var order []string
	var three ratelimit.Chain
	for i := range 3 {
		s := store()
		name := fmt.Sprint("limiter", i)
		stores = append(stores, s)
		three = append(three, ratelimit.Link{Limiter: newLimiter(t, ratelimit.Config{Name: name, Store: s, Hooks: ratelimit.Hooks{
			StoreFailed: func(_ context.Context, info ratelimit.Info) { order = append(order, info.Name) },
		}})})
	}
	r, err = three.Take(t.Context(), 1)
	require.NoError(t, err)
	for _, s := range stores {
		s.Down()
	}
	err = three.Refund(t.Context(), r)
	var all interface{ Unwrap() []error }
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Unwrap(), 3, "each failure is told")
	require.Equal(t, []string{"limiter2", "limiter1", "limiter0"}, order, "in reverse")
}

func TestPolly65_TheLatestRetryAfterOfAChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := []ratelimit.Limit{ratelimit.PerSecond(1), ratelimit.PerHour(1), ratelimit.PerMinute(1), ratelimit.PerHour(100)}
		var chain ratelimit.Chain
		for _, limit := range limits {
			chain = append(chain, ratelimit.Link{Limiter: newLimiter(t, ratelimit.Config{Limit: limit})})
		}
		r, err := chain.Take(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 0, r.Link, "the first of those with least left")
		r, err = chain.Take(t.Context(), 1)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		require.Equal(t, time.Hour, r.RetryAfter, "not that of the first")
		require.Equal(t, 1, r.Link)
		_, err = chain.Wait(t.Context(), 2)
		require.ErrorIs(t, err, ratelimit.ErrLimited)
		after, ok := core.RetryAfter(err)
		require.False(t, ok, "what never fits has none: %v", after)
	})
}
