package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// Nobody waits for a debt to be charged longer than he has time.
func TestADebtIsNotWaitedForTooLong(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode, Timeout: time.Second})
		s.instances.every = time.Hour
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local})
		require.NoError(t, err)
		_, err = l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		proxy.Swallow()
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.Less(t, r.Receipt.At, int64(0), "decided here")
		require.EqualValues(t, 1, tableOf(s).owing.Load())

		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err = l.Take(short, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(begun), 500*time.Millisecond)

		begun = time.Now()
		_, err = l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.Less(t, time.Since(begun), 1500*time.Millisecond, "one Timeout for all")
	})
}
