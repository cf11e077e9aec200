package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// A take that was decided here is refunded once, under whatever limit the refund reports.
func TestARefundOfAShareGoesToTheLimitThatWasCharged(t *testing.T) {
	t.Parallel()
	l, hundred := quiet(t, startServer(t).client(t))
	plan := func(limit ratelimit.Limit) ratelimit.PlanID {
		id, err := l.table.Plan(limit)
		require.NoError(t, err)
		return id
	}
	fifty, bucket := plan(ratelimit.PerHour(50)), plan(ratelimit.TokenBucket(100, time.Hour, 100))
	apply := func(id ratelimit.PlanID, op ratelimit.Op) ratelimit.Result {
		var r ratelimit.Result
		var err error
		if op.Kind == ratelimit.Refund {
			r, err = l.refund(context.Background(), "k", (*l.table.plans.Load())[id], op)
		} else {
			r, err = l.Apply(context.Background(), "k", id, op)
		}
		require.NoError(t, err)
		require.Equal(t, id, r.Plan)
		return r
	}
	debts := func() (sum int64) {
		for _, a := range l.shard("k").keys["k"].parts {
			sum += a.debt
		}
		return sum
	}
	three, two, four := apply(hundred, ratelimit.Op{Cost: 3}), apply(fifty, ratelimit.Op{Cost: 2}), apply(bucket, ratelimit.Op{Cost: 4})
	require.EqualValues(t, 9, debts())
	for _, back := range []struct {
		take         ratelimit.Result
		under        ratelimit.PlanID
		owes, remain int64
	}{{four, hundred, 5, 95}, {three, bucket, 2, 100}, {two, bucket, 0, 100}} {
		r := apply(back.under, ratelimit.Op{Kind: ratelimit.Refund, Cost: back.take.Granted, Receipt: back.take.Receipt})
		require.Equal(t, [2]int64{back.owes, back.remain}, [2]int64{debts(), r.Remaining})
	}
	require.Zero(t, l.owing.Load())
}
