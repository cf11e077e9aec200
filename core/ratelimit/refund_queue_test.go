package ratelimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

func TestWhatIsGivenBackIsHandedOver(t *testing.T) {
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
func TestTheEndOfACallGivesNothingBack(t *testing.T) {
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

func TestTheHeadIsWokenByWhatIsThereNotByWhatWasGivenBack(t *testing.T) {
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
