package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// The printed scenarios of the references, by source and number, in virtual time.
// Those that have a test elsewhere are not repeated. docs/ has the list of those that
// were decided differently.

func TestKresil69_WhatIsGivenBackIsHandedOver(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(1, 1000*time.Hour), func(t bubble) {
		l := t.l
		r := take(t, l, "k", 1)
		done := waitAt(t.Context(), l, 1)
		time.Sleep(time.Second)
		refund(t, l, r)
		w := <-done
		require.NoError(t, w.err)
		require.Equal(t, time.Second, w.took, "at the instant of the refund")
		require.Zero(t, mustPeek(t, l, "k").Remaining)
	})
}

// A rate gives nothing back when the call is over: that is what a bulkhead does.
func TestKresil73_TheEndOfACallGivesNothingBack(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(2)})
	left := func() int64 { return mustPeek(t, l, "").Remaining }
	_, err := ratelimit.Do(t.Context(), l, func(context.Context) (int, error) {
		require.EqualValues(t, 1, left())
		return 0, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, left())
	broken := errors.New("broken")
	_, err = ratelimit.Do(t.Context(), l, func(context.Context) (int, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
	require.Zero(t, left())
}

func TestKresil81_TheHeadIsWokenByWhatIsThereNotByWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(3, 1000*time.Hour), func(t bubble) {
		l := t.l
		var holders []ratelimit.Result
		for range 3 {
			holders = append(holders, take(t, l, "k", 1))
		}
		done := waitAt(t.Context(), l, 2)
		time.Sleep(time.Second)
		refund(t, l, holders[2])
		synctest.Wait()
		require.Empty(t, done, "it wants two")
		time.Sleep(time.Second)
		refund(t, l, holders[1])
		w := <-done
		require.NoError(t, w.err)
		require.Equal(t, 2*time.Second, w.took)
		require.Zero(t, mustPeek(t, l, "k").Remaining)
	})
}

func TestKresil83_SlidingLimitsRefuseTheSecondFive(t *testing.T) {
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

func TestKresil89_ASlidingWindowStepByStep(t *testing.T) {
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

func TestKresil99_KeysAreSharedAndResetAlone(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(2, time.Hour), func(t bubble) {
		l := t.l
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 2 {
					granted.Add(take(t, l, "a", 1).Granted)
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

// A change grants nothing, is felt at once, and what is quoted after it is right.
func TestKresilRow106_ANewLimitHoldsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10)})
		require.True(t, take(t, l, "k", 10).Allowed)
		time.Sleep(20 * time.Second)
		require.NoError(t, l.SetLimit(ratelimit.PerMinute(30)))
		require.Equal(t, ratelimit.PerMinute(30), l.Limit())
		require.EqualValues(t, 0, take(t, l, "k", 20).Remaining, "never refills")
		require.Equal(t, time.Minute, take(t, l, "k", 1).RetryAfter)
		require.EqualValues(t, 29, take(t, l, "new", 1).Remaining)
		time.Sleep(time.Minute - 1)
		require.False(t, take(t, l, "k", 1).Allowed)
		time.Sleep(time.Nanosecond)
		require.True(t, take(t, l, "k", 30).Allowed)
		require.NoError(t, l.SetLimit(ratelimit.PerMinute(5)))
		require.Equal(t, time.Minute, take(t, l, "k", 1).RetryAfter)
		time.Sleep(time.Minute)
		require.True(t, take(t, l, "k", 5).Allowed)
		require.False(t, take(t, l, "k", 1).Allowed)
	})
}
