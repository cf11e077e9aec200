package limits

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// After every operation the head has a time at which it looks again for its permits, or a signal. Each
// decision has the time of its operation, also behind a queue.
func TestTheHeadOfAQueueIsNeverForgotten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		checkHead(t, rand.New(rand.NewPCG(seed, 1)))
	}
}

func checkHead(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	plans := NewPlans(Clock{})
	var ids []driver.ID
	for range 3 {
		var specs []driver.Spec
		for i := range 1 + rnd.IntN(3) {
			n := 1 + rnd.Int64N(6)
			specs = append(specs, driver.Spec{
				Algorithm: driver.Algorithm(rnd.IntN(5)), Permits: n, Period: time.Duration(1+rnd.IntN(3)) * 12 * time.Second,
			})
			switch s := &specs[i]; s.Algorithm {
			case driver.TokenBucket:
				s.Burst = 1 + rnd.Int64N(6)
			case driver.SlidingWindow:
				s.Segments = 2 + rnd.IntN(3)
			case driver.FixedWindow:
				s.Aligned = rnd.IntN(2) == 0
			case driver.SlidingCounter, driver.SlidingLog:
			}
		}
		id, err := plans.Plan(specs)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	limit := ids[0]
	q, k := new(Queue), &Key{Now: 1e18}
	req := func() *Request {
		return &Request{
			Limit: func() (driver.ID, *driver.Change) { return limit, nil },
			Cost:  1 + rnd.Int64N(4), MaxWait: time.Duration(rnd.IntN(90)) * time.Second,
			NewestFirst: false, Room: func(int64) int64 { return 30 },
		}
	}
	var waiters []*waiter
	for range 60 {
		k.Now += rnd.Int64N(int64(4 * time.Second))
		p := plans.All()[limit]
		switch n := rnd.IntN(12); {
		case n < 5:
			if w, _ := q.enter(k, p, nil, req()); w != nil {
				waiters = append(waiters, w)
			}
		case n < 9:
			r := q.Apply(k, p, &driver.Op{Kind: driver.OpKind(rnd.IntN(int(driver.Drain) + 1)), Cost: rnd.Int64N(4)})
			require.Equal(t, k.Now, r.Receipt.At)
		case n == 9:
			c := &driver.Change{Replaced: []driver.ID{limit}}
			limit = ids[rnd.IntN(len(ids))]
			c.Plan = limit
			q.Retime(k, plans, c)
		case len(waiters) > 0:
			if w := waiters[rnd.IntN(len(waiters))]; w.Waiting() && n == 10 {
				q.leave(k, w)
				q.serve(k)
			} else {
				q.look(k, w)
			}
		}
		for _, c := range k.Counts() {
			require.True(t, c.Rule.reads(c.State, k.Now), "%v %v", c.Rule.Spec, c.List)
		}
		if head := q.waiters.First(); head != nil {
			require.Less(t, head.Value.next, int64(math.MaxInt64))
		}
	}
}

// A key with as many counts as it keeps is looked at under one limit more.
func TestALookChangesNoCount(t *testing.T) {
	t.Parallel()
	plans := NewPlans(Clock{})
	k := &Key{Now: 1e18}
	plan := func(i int) *Plan {
		permits := int64(100)
		if i == 3 {
			permits = 2 // the count with the least use, which is charged to another
		}
		id, err := plans.Plan([]driver.Spec{{Algorithm: driver.SlidingLog, Permits: permits, Period: time.Duration(i+1) * time.Hour}})
		require.NoError(t, err)
		return plans.All()[id]
	}
	for i := range maxCounts {
		_, changed := k.Apply(plan(i), &driver.Op{Cost: 1})
		require.True(t, changed)
		k.Now += int64(time.Second)
	}
	require.Len(t, k.Counts(), maxCounts)
	before := k.copy()
	for _, kind := range []driver.OpKind{driver.Check, driver.Take} {
		_, changed := k.Apply(plan(maxCounts), &driver.Op{Kind: kind, Cost: 0})
		require.False(t, changed)
		require.Equal(t, before.Counts(), k.Counts())
	}
}
