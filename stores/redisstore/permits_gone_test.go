package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

// TestAHeavyLeaseOfAProcessThatEndsIsFreeAgain: all of its permits are, also if no other lease keeps
// the key of leases.
func TestAHeavyLeaseOfAProcessThatEndsIsFreeAgain(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	dead := newBulkhead(t, client, brief, limitOf(5))
	lost := acquire(t, dead, "k", 4)
	require.NoError(t, dead.Config().Store.(*Store).Close()) //nolint:forcetypeassert // of newBulkhead
	<-lost.Context().Done()
	require.Eventually(t, func() bool { return !isTaken(t, client, "k") }, patient, time.Millisecond)
	b := newBulkhead(t, client, brief, limitOf(5), noQueue)
	for range 2 {
		p := acquire(t, b, "k", 5)
		_, err := b.Acquire(context.Background(), "k")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		p.Done(core.Success)
	}
}

// TestAWaiterWhoseRegistrationIsLost: its permits count once it has them, and it returns them.
func TestAWaiterWhoseRegistrationIsLost(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	ctx := context.Background()
	b := newBulkhead(t, client, Config{}, limitOf(3), noQueue)
	of := &permits{b.Config().Store.(*Store).leasing, "=vendor"} //nolint:forcetypeassert // of newBulkhead
	for _, weight := range []int{1, 2} {
		p := acquire(t, b, "k", 3)
		h := of.holder(bulkhead.Request{Key: "k", Weight: weight, Limit: func() int { return 3 }, Lost: func(error) {}})
		_, err := of.leases.take(ctx, h, "wait", time.Minute)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.NoError(t, client.Del(ctx, h.keys[1]).Err(), "it has expired during a pause")
		p.Done(core.Success)
		_, err = of.leases.take(ctx, h, "wait", time.Minute)
		require.NoError(t, err)
		_, err = b.AcquireN(ctx, "k", 4-weight)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		of.leases.release(h)
		p = acquire(t, b, "k", 3)
		p.Done(core.Success)
	}
}
