package limits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// decodeAndUse reads a stored value, and does every operation on it.
func decodeAndUse(tb testing.TB, value []byte, now int64) (readable bool) {
	tb.Helper()
	plans := limits.NewPlans(limits.Clock{}, nil)
	account, at, err := plans.Decode(value)
	if err != nil {
		return false
	}
	now = max(now, at)
	for _, specs := range [][]limits.Spec{
		{{Algorithm: limits.FixedWindow, Permits: 5, Period: time.Minute}},
		{{Algorithm: limits.TokenBucket, Permits: 5, Period: time.Minute, Burst: 9}, {Algorithm: limits.SlidingLog, Permits: 5, Period: time.Minute}},
		{{Algorithm: limits.SlidingCounter, Permits: 5, Period: time.Minute}, {Algorithm: limits.SlidingWindow, Permits: 5, Period: time.Minute, Segments: 10}},
	} {
		p, err := plans.Plan(specs)
		require.NoError(tb, err)
		use(tb, plans, value, p, now)
	}
	for _, v := range account.Values() { // under the limits of the value itself
		use(tb, plans, value, v.Rule.Alone(), now)
	}
	return true
}

func use(tb testing.TB, plans *limits.Plans, value []byte, p *limits.Plan, now int64) {
	tb.Helper()
	for kind := limits.Take; kind <= limits.Drain; kind++ {
		for _, after := range []int64{0, 1, int64(time.Second), int64(time.Minute), int64(24 * time.Hour)} {
			account, at, err := plans.Decode(value)
			require.NoError(tb, err)
			k := limits.Key{Account: account, Now: now + after}
			k.Expire(k.Now - at)
			for _, cost := range []int64{0, 1, 5, p.Capacity} {
				r := k.Apply(p, &limits.Op{Kind: kind, Cost: cost, MaxWait: time.Hour})
				require.LessOrEqual(tb, r.Remaining, r.Limit)
				require.GreaterOrEqual(tb, r.Remaining, int64(0))
				k.Apply(p, &limits.Op{Kind: limits.Refund, Cost: r.Permits, Receipt: r.Receipt})
			}
			_ = k.End(k.Now)
			_, _, err = plans.Decode(k.Encode(k.Now))
			require.NoError(tb, err, "the value is still readable")
		}
	}
}

func TestDecodeOfOtherValues(t *testing.T) {
	t.Parallel()
	value := func(limit, state string) string {
		return `{"Version":1,"At":100,"Values":[{"Limit":{` + limit + `,"Period":1000},"State":{` + state + `}}]}`
	}
	for _, value := range []string{
		``, `5`, `{}`, `{"Version":2}`, `{"At":100,"Counts":[]}`,
		value(`"Algorithm":9,"Permits":1`, `"Word":1`), value(`"Algorithm":0,"Permits":1099511627776`, `"Word":1`),
		value(`"Algorithm":2,"Permits":1,"Segments":3`, `"List":[]`), value(`"Algorithm":1,"Permits":1,"Burst":157680000000000000`, `"Word":1`),
		value(`"Algorithm":0,"Permits":1`, `"List":[1]`), value(`"Algorithm":1,"Permits":1,"Burst":1`, `"List":[1]`),
		value(`"Algorithm":3,"Permits":1`, `"List":[1,2]`), value(`"Algorithm":3,"Permits":1`, `"List":[1,2,3,4]`),
		value(`"Algorithm":4,"Permits":1`, `"List":[1]`), value(`"Algorithm":4,"Permits":1`, `"List":[3,1,1,1]`),
		value(`"Algorithm":4,"Permits":1`, `"List":[-2,1]`), value(`"Algorithm":4,"Permits":1`, `"List":[6,1,1,1]`),
	} {
		require.False(t, decodeAndUse(t, []byte(value), 100), value)
	}
}

// written returns values that a store has written.
func written(tb testing.TB) (values [][]byte) {
	tb.Helper()
	plans := limits.NewPlans(limits.Clock{}, nil)
	for _, spec := range []limits.Spec{
		{Algorithm: limits.FixedWindow, Permits: 4, Period: time.Minute},
		{Algorithm: limits.FixedWindow, Permits: 4, Period: time.Minute, Aligned: true},
		{Algorithm: limits.TokenBucket, Permits: 3, Period: time.Second, Burst: 4},
		{Algorithm: limits.SlidingWindow, Permits: 4, Period: time.Minute, Segments: 10},
		{Algorithm: limits.SlidingCounter, Permits: 4, Period: time.Minute},
		{Algorithm: limits.SlidingLog, Permits: 4, Period: time.Minute},
	} {
		p, err := plans.Plan([]limits.Spec{spec})
		require.NoError(tb, err)
		k := limits.Key{Now: 1e18}
		for i := range 6 {
			k.Apply(p, &limits.Op{Kind: limits.Reserve, Cost: int64(1 + i%2), MaxWait: time.Hour})
			k.Now += int64(20 * time.Second)
			values = append(values, k.Encode(k.Now))
		}
	}
	return values
}

func TestAValueThatAStoreHasWrittenIsReadable(t *testing.T) {
	t.Parallel()
	for i, value := range written(t) {
		require.True(t, decodeAndUse(t, value, 1e18), "%d: %s", i, value)
	}
}
