package bulkhead

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWordHoldsAnyNumberOfPermits(t *testing.T) {
	t.Parallel()
	for _, permits := range []int{1, 2, mostPermits} {
		var w word
		w.Store(none + uint64(permits))
		require.False(t, w.take(mostPermits) && permits < mostPermits)
		w.Store(none + uint64(permits))
		require.Equal(t, permits, free(w.Load()))
		require.True(t, w.take(permits))
		require.Zero(t, free(w.Load()))
		require.True(t, w.refuses(1))
		require.False(t, w.take(1))
		w.add(-permits) // the limit is lowered to none
		require.Equal(t, -permits, free(w.Load()))
		w.add(permits)
		w.add(permits)
		require.Equal(t, permits, free(w.Load()))
		require.Equal(t, uint64(1), admissions(w.Load()))
	}
}

// Only waiters lock the word: a call that is rejected leaves the others without a lock.
func TestARejectedCallDoesNotLockTheWord(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, cfg := range []Config{{Limit: 2}, {Limit: 2, MaxQueue: -1}, {Limit: 2, MaxWait: 1}} {
		b, err := New(cfg)
		require.NoError(t, err)
		_, err = b.Acquire(t.Context(), "")
		require.NoError(t, err)
		ctx := ended
		if cfg.MaxQueue != 0 || cfg.MaxWait != 0 {
			ctx = t.Context()
		}
		_, err = b.AcquireN(ctx, "", 2)
		require.Error(t, err)
		require.Zero(t, b.unkeyed.word.Load()&slow)
	}
}

// The number of admitted calls is read out of the word before it overflows.
func TestAdmissionsAreHarvested(t *testing.T) {
	t.Parallel()
	b, err := New(Config{Limit: 2, MaxQueue: -1})
	require.NoError(t, err)
	c := &b.unkeyed
	c.word.Store(c.word.Load() + harvest - 2*admission) // as after so many calls
	for i := range 5 {
		p, err := b.Acquire(t.Context(), "")
		require.NoError(t, err, i)
		p.Done(0)
	}
	require.Less(t, admissions(c.word.Load()), uint64(10))
	p, err := b.AcquireN(t.Context(), "", 2)
	require.NoError(t, err)
	_, err = b.Acquire(t.Context(), "")
	require.ErrorIs(t, err, ErrFull)
	p.Done(0)
	require.Equal(t, uint64(harvest>>32)-2+6, b.Stats().Admitted)
	require.Zero(t, c.word.Load()&slow)
}
