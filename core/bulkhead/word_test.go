package bulkhead

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWord(t *testing.T) {
	t.Parallel()
	for _, permits := range []int{1, 2, mostPermits} {
		var w word
		w.Store(none + uint64(permits))
		require.False(t, w.take(permits+1))
		require.False(t, w.take(0))
		require.False(t, w.take(-1))
		require.False(t, w.none())
		require.Equal(t, permits, free(w.Load()))
		require.True(t, w.take(permits))
		require.Zero(t, free(w.Load()))
		require.True(t, w.none())
		require.False(t, w.take(1))
		w.add(-permits) // the limit is lowered to none
		require.Equal(t, -permits, free(w.Load()))
		require.True(t, w.none())
		w.add(permits)
		w.add(permits)
		require.Equal(t, permits, free(w.Load()))
		require.Equal(t, uint64(1), admissions(w.Load()))
	}
}

// Only waiters lock the word: a call that is rejected leaves the others without a lock.
func TestWordAfterRejection(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, cfg := range []Config{{Limit: 2}, {Limit: 2, MaxQueue: -1}, {Limit: 2, MaxWait: 1}} {
		b, err := New(cfg)
		require.NoError(t, err)
		_, err = b.Acquire(t.Context(), "", 1)
		require.NoError(t, err)
		ctx := ended
		if cfg.MaxQueue != 0 || cfg.MaxWait != 0 {
			ctx = t.Context()
		}
		_, err = b.Acquire(ctx, "", 2)
		require.Error(t, err)
		require.Less(t, b.unkeyed.word.Load(), uint64(harvest))
	}
}

// The number of admitted calls is read out of the word before it overflows.
func TestWordHarvest(t *testing.T) {
	t.Parallel()
	b, err := New(Config{Limit: 2, MaxQueue: -1})
	require.NoError(t, err)
	c := &b.unkeyed
	c.word.Store(c.word.Load() + harvest - 2*admission) // as after so many calls
	for i := range 5 {
		p, err := b.Acquire(t.Context(), "", 1)
		require.NoError(t, err, i)
		p.Done(0)
	}
	require.Less(t, admissions(c.word.Load()), uint64(10))
	require.Equal(t, uint64(harvest>>32)-2+5, b.Stats().Admitted)
	_, err = b.Acquire(t.Context(), "", 2)
	require.NoError(t, err)
	_, err = b.Acquire(t.Context(), "", 1)
	require.ErrorIs(t, err, ErrFull)
}
