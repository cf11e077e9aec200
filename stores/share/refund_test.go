package share

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// A take that was decided here is refunded under whatever limit the refund reports, unless it was counted under
// other numbers since.
func TestARefundOfAShareGoesToTheLimitThatWasCharged(t *testing.T) {
	t.Parallel()
	s := newStore(t, &ratelimittest.Failing{Store: inMemory()}, Config{})
	s.charging.Store(true) // nothing charges
	table, err := s.Open("l")
	require.NoError(t, err)
	l := table.(limits.LocalTable).Local().(*local) //nolint:forcetypeassert // it is ours
	plan := func(limit ratelimit.Limit) *limits.Plan {
		id, err := l.table.Plan(limits.Limit(limit).Specs())
		require.NoError(t, err)
		return id
	}
	hundred, fifty, bucket := plan(ratelimit.PerHour(100)), plan(ratelimit.PerHour(50)), plan(ratelimit.TokenBucket(100, time.Hour, 100))
	apply := func(id *limits.Plan, op limits.Op) limits.Result {
		var r limits.Result
		var err error
		if op.Kind == limits.Refund {
			r, err = l.refund(context.Background(), "k", planOf(id), op)
		} else {
			r, err = l.Apply(context.Background(), "k", id, op)
		}
		require.NoError(t, err)
		return r
	}
	debts := func() (sum int64) {
		for _, a := range l.shard("k").keys["k"].parts {
			sum += a.debt
		}
		return sum
	}
	three, two, four := apply(hundred, limits.Op{Cost: 3}), apply(fifty, limits.Op{Cost: 2}), apply(bucket, limits.Op{Cost: 4})
	require.EqualValues(t, 9, debts())
	for _, back := range []struct {
		take         limits.Result
		under        *limits.Plan
		owes, remain int64
	}{{four, hundred, 5, 95}, {three, bucket, 5, 95}, {two, bucket, 5, 95}} {
		r := apply(back.under, limits.Op{Kind: limits.Refund, Cost: back.take.Permits, Receipt: back.take.Receipt})
		require.Equal(t, [2]int64{back.owes, back.remain}, [2]int64{debts(), r.Remaining})
	}
}

// A take that was charged to the store is not part of the debt any more: its refund leaves the debt of later
// takes, which are charged too.
func TestRefundAfterCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := &ratelimittest.Failing{Store: inMemory()}
		s := newStore(t, failing, Config{})
		s.charging.Store(true) // nothing charges by itself
		table, err := s.Open("l")
		require.NoError(t, err)
		l := table.(limits.LocalTable).Local().(*local) //nolint:forcetypeassert // it is ours
		id, err := l.table.Plan(limits.Limit(ratelimit.PerHour(10)).Specs())
		require.NoError(t, err)
		take := func() limits.Result {
			r, err := l.Apply(t.Context(), "k", id, limits.Op{Cost: 2})
			require.NoError(t, err)
			time.Sleep(time.Second)
			return r
		}
		first := take()
		l.charge(t.Context(), "k", l.shard("k").keys["k"], &charge{over: make(chan struct{})})
		second := take()
		k := l.shard("k").keys["k"]
		for _, r := range []limits.Result{first, second} {
			require.EqualValues(t, 2, k.parts[0].debt)
			_, err = l.refund(t.Context(), "k", planOf(id), limits.Op{Kind: limits.Refund, Cost: 2, Receipt: r.Receipt})
			require.NoError(t, err)
		}
		require.Zero(t, k.parts[0].debt)
	})
}
