package ratelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

func TestReservationsOfOnePerCycle(t *testing.T) {
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

func TestReservationsAheadAndACostAboveTheCapacity(t *testing.T) {
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

// An upstream that answers 429 drains the key. The count of what was drained is right.
func TestADrainAfterA429(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(10, time.Minute), func(t bubble) {
		l := t.l
		status, err := ratelimit.Do(t.Context(), l, "", func(context.Context) (int, error) { return 429, nil })
		require.NoError(t, err)
		require.Equal(t, 429, status)
		r, err := l.Drain(t.Context(), "")
		require.NoError(t, err)
		require.EqualValues(t, 9, r.Permits)
		r = take(t, l, "", 1)
		require.False(t, r.Allowed)
		require.Zero(t, r.Remaining)
	})
}

// A look sweeps the table, which rewrites the counts of joined limits.
func TestAReservedWindowEndsAtItsTimeAlsoIfTheKeyIsSwept(t *testing.T) {
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
