package share

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// hanging returns a limiter with a debt, whose store does not reply any more.
func hanging(tb testing.TB) *ratelimit.Limiter {
	tb.Helper()
	store := &ratelimittest.Failing{Store: inMemory()}
	l := newLimiter(tb, newStore(tb, store, Config{}), ratelimit.PerHour(100))
	store.Down()
	require.True(tb, take(tb, l, "k", 1).Allowed)
	store.Up()
	store.Delay(24 * time.Hour)
	return l
}

// TestCloseEndsAChargeThatATakeBegan, and then charges the debts for no longer than a second.
func TestCloseEndsAChargeThatATakeBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := hanging(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := l.Take(ctx, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := time.Now()
		require.NoError(t, storeOf(l).Close())
		require.LessOrEqual(t, time.Since(begun), closeTime)
	})
}

// TestAChargeThatTimesOutIsAFailure: after several, a take does not wait for the store.
func TestAChargeThatTimesOutIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := hanging(t)
		for range failures {
			take(t, l, "k", 1)
		}
		require.EqualValues(t, failures, storeOf(l).Stats().Unsent, "those that waited for a charge")
		begun := time.Now()
		require.True(t, take(t, l, "k", 1).Allowed)
		require.Zero(t, time.Since(begun))
	})
}
