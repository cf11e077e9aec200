package limits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// decodeAndUse reads a stored value, and does every operation on it. It panics if the value can make
// that happen.
func decodeAndUse(tb testing.TB, value []byte, now int64) (readable bool) {
	tb.Helper()
	plans := limits.NewPlans(limits.Clock{})
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
		id, err := plans.Plan(specs)
		require.NoError(tb, err)
		use(tb, plans, value, id, now)
	}
	for _, c := range account.Counts() { // under the limits of the value itself
		use(tb, plans, value, c.Rule.ID, now)
	}
	return true
}

func use(tb testing.TB, plans *limits.Plans, value []byte, id limits.ID, now int64) {
	tb.Helper()
	p := plans.All()[id]
	for kind := limits.Take; kind <= limits.Drain; kind++ {
		for _, after := range []int64{0, 1, int64(time.Second), int64(time.Minute), int64(24 * time.Hour)} {
			account, at, err := plans.Decode(value)
			require.NoError(tb, err)
			k := limits.Key{Account: account, Now: now + after}
			k.Expire(k.Now-at, k.Now)
			k.Change(&limits.Change{Plan: id}, plans.All(), k.Now)
			for _, cost := range []int64{0, 1, 5, p.Capacity} {
				r, _ := k.Apply(p, &limits.Op{Kind: kind, Cost: cost, MaxWait: time.Hour})
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

// hostile returns stored values that no store has written.
func hostile() (values []string) {
	count := func(limit, state string) string {
		return `{"Limit":{` + limit + `,"Period":1000},"State":{` + state + `}}`
	}
	value := func(counts string) { values = append(values, `{"At":100,"Counts":[`+counts+`]}`) }
	for _, limit := range []string{
		`"Algorithm":0,"Permits":1099511627776`, `"Algorithm":1,"Permits":1099511627776,"Burst":1`, `"Algorithm":1,"Permits":1,"Burst":1099511627776`,
		`"Algorithm":2,"Permits":1099511627776,"Segments":10`, `"Algorithm":2,"Permits":1,"Segments":1001`, `"Algorithm":2,"Permits":1,"Segments":3`,
		`"Algorithm":3,"Permits":1099511627776`, `"Algorithm":4,"Permits":65537`, `"Algorithm":1,"Permits":1,"Burst":157680000000000000`,
	} {
		value(count(limit, `"List":[]`))
	}
	for _, state := range []string{`"List":[2,5000]`, `"List":[2,5000,10,1]`, `"List":[2,-1,10,-1]`, `"List":[2,5000,9223372036854775807,5000]`, `"List":[2,5000,-9223372036854775808,5000]`} {
		value(count(`"Algorithm":4,"Permits":5000`, state))
		value(count(`"Algorithm":2,"Permits":5000,"Segments":10`, state))
	}
	for _, state := range []string{`"List":[9000,5000,1]`, `"List":[-9223372036854775808,5000,5000]`, `"List":[50,-1,1]`, `"List":[50,1,-1]`, `"List":[50,1,1,9223372036854775807,1]`, `"List":[50,1,1,120,-1]`} {
		value(count(`"Algorithm":3,"Permits":5000`, state))
	}
	for _, word := range []string{`"Word":18446744073709551615`, `"Word":9223372036854775807`} {
		value(count(`"Algorithm":0,"Permits":1`, word))
	}
	twice := count(`"Algorithm":4,"Permits":5`, `"List":[]`)
	value(twice + "," + twice)
	values = append(values, `{"At":9223372036854775807,"Counts":[`+twice+`]}`, `{"At":-9223372036854775808,"Counts":[`+twice+`]}`)
	return values
}

func TestAStoredValueThatNoStoreHasWrittenCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, value := range hostile() {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			require.False(t, decodeAndUse(t, []byte(value), 100))
		})
	}
}

// written returns values that a store has written.
func written(tb testing.TB) (values [][]byte) {
	tb.Helper()
	plans := limits.NewPlans(limits.Clock{})
	for _, spec := range []limits.Spec{
		{Algorithm: limits.FixedWindow, Permits: 4, Period: time.Minute},
		{Algorithm: limits.FixedWindow, Permits: 4, Period: time.Minute, Aligned: true},
		{Algorithm: limits.TokenBucket, Permits: 3, Period: time.Second, Burst: 4},
		{Algorithm: limits.SlidingWindow, Permits: 4, Period: time.Minute, Segments: 10},
		{Algorithm: limits.SlidingCounter, Permits: 4, Period: time.Minute},
		{Algorithm: limits.SlidingLog, Permits: 4, Period: time.Minute},
	} {
		id, err := plans.Plan([]limits.Spec{spec})
		require.NoError(tb, err)
		k := limits.Key{Now: 1e18}
		for i := range 6 {
			k.Apply(plans.All()[id], &limits.Op{Kind: limits.Reserve, Cost: int64(1 + i%2), MaxWait: time.Hour})
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

func TestABucketThatOwesMoreThanItCanHasRecovered(t *testing.T) {
	t.Parallel()
	plans := limits.NewPlans(limits.Clock{})
	account, at, err := plans.Decode([]byte(`{"At":100,"Counts":[{"Limit":{"Algorithm":1,"Permits":1,"Period":1000000000,"Burst":1},"State":{"Word":6917529027641081856}}]}`))
	require.NoError(t, err)
	k := limits.Key{Account: account, Now: at}
	r, _ := k.Apply(plans.All()[account.Counts()[0].Rule.ID], &limits.Op{Kind: limits.Take, Cost: 1})
	require.True(t, r.Allowed)
}

func FuzzStoredValues(f *testing.F) {
	for _, value := range hostile() {
		f.Add([]byte(value), int64(100))
	}
	for _, value := range written(f) {
		f.Add(value, int64(1e18))
	}
	f.Fuzz(func(t *testing.T, value []byte, now int64) {
		if now >= 0 && now < 5e18 {
			decodeAndUse(t, value, now)
		}
	})
}
