package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/quiettest"
)

// TestAHeavyLeaseOfAProcessThatEndsIsFreeAgain: all of its permits are, also if no other lease keeps
// the key of leases.
func TestAHeavyLeaseOfAProcessThatEndsIsFreeAgain(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) {
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
	})
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

// TestAWaiterWhoseReplyIsLostHasItsPermits: it does not wait for the end of its own lease.
func TestAWaiterWhoseReplyIsLostHasItsPermits(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	ctx := context.Background()
	b := newBulkhead(t, client, Config{}, limitOf(3), noQueue)
	of := &permits{b.Config().Store.(*Store).leasing, "=vendor"} //nolint:forcetypeassert // of newBulkhead
	for _, weight := range []int{1, 3} {
		h := of.holder(bulkhead.Request{Key: "k", Weight: weight, Limit: func() int { return weight }, Lost: func(error) {}})
		other := of.holder(h.Request)
		ends := 0.0
		for range 3 { // it asks again each time
			_, err := of.leases.take(ctx, h, "wait", time.Minute)
			require.NoError(t, err)
			held := client.ZRangeWithScores(ctx, h.keys[0], 0, -1).Val()
			require.Len(t, held, 1)
			require.Greater(t, held[0].Score, ends, "its lease begins anew, as it takes it to be")
			ends = held[0].Score
			_, err = of.leases.take(ctx, other, "wait", time.Minute)
			require.ErrorIs(t, err, bulkhead.ErrFull)
		}
		of.leases.release(h)
		_, err := of.leases.take(ctx, other, "wait", time.Minute)
		require.NoError(t, err)
		of.leases.release(other)
		p := acquire(t, b, "k", 3)
		p.Done(core.Success)
	}
}

// TestAWaiterThatIsHeavierThanALoweredLimitLeaves: it would wait for ever, and all calls behind it.
func TestAWaiterThatIsHeavierThanALoweredLimitLeaves(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	endless := func(c *bulkhead.Config) { c.MaxWait = -1 }
	a, b := newBulkhead(t, client, Config{}, limitOf(5), endless), newBulkhead(t, client, Config{}, limitOf(5), endless)
	p := acquire(t, a, "k", 1)
	rejected := make(chan error)
	go func() {
		_, err := b.AcquireN(context.Background(), "k", 5)
		rejected <- err
	}()
	require.Eventually(t, func() bool { return waitersOf(t, client) == 1 }, patient, time.Millisecond)
	for _, each := range []*bulkhead.Bulkhead{a, b} {
		cfg := each.Config()
		cfg.Limit = 2
		require.NoError(t, each.SetConfig(cfg))
	}
	select {
	case err := <-rejected:
		require.EqualError(t, err, "bulkhead: vendor: a weight of 5 is above the limit of 2")
	case <-time.After(patient):
		t.Fatal("it waits")
	}
	other := acquire(t, a, "k", 1)
	other.Done(core.Success)
	p.Done(core.Success)
}

// TestALeaseThatCannotBeRenewedIsTheOnlyOneLost: leases are renewed together.
func TestALeaseThatCannotBeRenewedIsTheOnlyOneLost(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) {
		client := startServer(t).client(t)
		cfg := brief
		b := newBulkhead(t, client, cfg)
		bad, good := acquire(t, b, "bad", 1), acquire(t, b, "good", 1)
		require.NoError(t, client.Set(context.Background(), "gresil:{bulkheads}:leases:=vendor:=bad", "text", 0).Err())
		<-bad.Context().Done()
		require.ErrorIs(t, context.Cause(bad.Context()), bulkhead.ErrLost)
		require.ErrorContains(t, context.Cause(bad.Context()), "WRONGTYPE")
		time.Sleep(cfg.Lease / 2) // longer than the time between two renewals
		require.NoError(t, good.Context().Err())
		require.True(t, isTaken(t, client, "good"))
		bad.Done(core.Ignored)
		good.Done(core.Success)
		require.EqualValues(t, 1, b.Stats().Lost)
	})
}
