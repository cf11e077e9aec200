package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// newTestTable is a table with a store of its own and one plan.
func newTestTable(tb testing.TB, maxKeys int, all ...Limit) (*table, []*limits.Plan) {
	tb.Helper()
	m, err := NewMemory(maxKeys)
	require.NoError(tb, err)
	opened, err := m.Open("test")
	require.NoError(tb, err)
	tab := opened.(*table)
	ids := make([]*limits.Plan, len(all))
	for i, l := range all {
		require.NoError(tb, l.check(""), "%v", l)
		ids[i], err = tab.Plan(limits.Limit(l).Specs())
		require.NoError(tb, err)
	}
	return tab, ids
}

// eitherAt is applyAt or, every other nanosecond, takeOne where that can do it.
func eitherAt(t *table, now int64, key string, id *limits.Plan, op limits.Op) (r Result, err error) {
	if now%2 == 0 && op.Kind == limits.Take && len(id.Rules) == 1 && !id.Rules[0].Listed() && t.takeOne(now, key, id.Rules[0], op.Cost, true, &r) {
		return r, nil
	}
	return t.applyAt(now, key, id, &op)
}

// mustApply applies at a time.
func mustApply(tb testing.TB, tab *table, now time.Duration, key string, id *limits.Plan, op limits.Op) Result { //nolint:thelper // see below
	r, err := eitherAt(tab, int64(now), key, id, op)
	if err != nil { // it is called so often that the assertions would be most of the time
		tb.Helper()
		require.NoError(tb, err)
	}
	return r
}

func TestBucketTicks(t *testing.T) {
	t.Parallel()
	l := TokenBucket(1_000_003, 24*time.Hour, 1_000_003) // too fine for 1ns: counts in 100ns
	require.NoError(t, l.check(""))
	_, _, unit := limits.Clock{}.Rule(spec(l)).Bucket()
	require.Greater(t, unit, int64(1))
	tab, ids := newTestTable(t, 0, l)
	require.EqualValues(t, 0, mustApply(t, tab, 5, "k", ids[0], limits.Op{Cost: spec(l).Burst}).Remaining)
	r := mustApply(t, tab, 5, "k", ids[0], limits.Op{Cost: 7})
	require.False(t, r.Allowed)
	require.False(t, mustApply(t, tab, 5+r.RetryAfter-1, "k", ids[0], limits.Op{Cost: 7}).Allowed)
	require.True(t, mustApply(t, tab, 5+r.RetryAfter, "k", ids[0], limits.Op{Cost: 7}).Allowed)
	require.EqualValues(t, spec(l).Burst, mustApply(t, tab, 24*time.Hour+5+r.RetryAfter+1000, "k", ids[0], limits.Op{}).Remaining, "a day repays all")
}

func TestWindowOfManyPermits(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{
		FixedWindow(MaxPermits, MaxPeriod), FixedWindow(MaxPermits, 1), FixedWindow(1, MaxPeriod), FixedWindow(1e9, time.Minute), FixedWindow(1000, 24*time.Hour), FixedWindow(63, 3*time.Hour),
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			tab, ids := newTestTable(t, 0, l)
			const start = 1_234_567_891_234
			require.EqualValues(t, 0, mustApply(t, tab, start, "k", ids[0], limits.Op{Cost: spec(l).Permits}).Remaining)
			r := mustApply(t, tab, start+spec(l).Period/2, "k", ids[0], limits.Op{Cost: 1})
			require.False(t, r.Allowed)
			tick := time.Duration(1) << wordTick(l)
			require.Less(t, tick, max(2, spec(l).Period/256), "the start is rounded by little")
			end := start + spec(l).Period/2 + r.RetryAfter
			require.LessOrEqual(t, end, start+spec(l).Period, "nobody waits for longer than a period")
			require.Greater(t, end, start+spec(l).Period-tick)
			if spec(l).Period > 1 {
				require.False(t, mustApply(t, tab, end-1, "k", ids[0], limits.Op{Cost: 1}).Allowed)
			}
			full := mustApply(t, tab, end, "k", ids[0], limits.Op{Cost: spec(l).Permits})
			require.True(t, full.Allowed)
			require.GreaterOrEqual(t, full.FullAfter, spec(l).Period, "no window begins before the last is over")
			require.Less(t, full.FullAfter, spec(l).Period+tick)
		})
	}
}

func TestNoKeyIsReadWrongAfterAnyTimeAway(t *testing.T) {
	t.Parallel()
	all := []Limit{
		PerMinute(5), PerSecond(3), FixedWindow(1000, 24*time.Hour), TokenBucket(3, time.Second, 3), TokenBucket(999_999_937, time.Second, 999_999_937), TokenBucket(299, time.Hour, 299),
		TokenBucket(1_000_003, 24*time.Hour, 9), FixedWindow(1, MaxPeriod), TokenBucket(1, MaxPeriod, 1), FixedWindow(MaxPermits, time.Second),
	}
	for _, l := range all {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			for away := time.Duration(1); away > 0 && away < 200*365*24*time.Hour; away *= 3 {
				tab, ids := newTestTable(t, 0, l)
				took := mustApply(t, tab, 1000, "k", ids[0], limits.Op{Cost: limits.Limit(l).Capacity()})
				require.Zero(t, took.Remaining)
				r := mustApply(t, tab, 1000+away, "k", ids[0], limits.Op{})
				if away >= took.FullAfter {
					require.Equal(t, limits.Limit(l).Capacity(), r.Remaining, "after %v", away)
					require.Zero(t, r.FullAfter)
				} else {
					require.Less(t, r.Remaining, limits.Limit(l).Capacity(), "after %v", away)
					require.LessOrEqual(t, r.FullAfter, took.FullAfter)
				}
			}
		})
	}
}

func TestNoDriftAtThreePerSecond(t *testing.T) {
	t.Parallel()
	checkNoDrift(t, time.Hour)
}

func checkNoDrift(t *testing.T, length time.Duration) {
	t.Helper()
	tab, ids := newTestTable(t, 0, TokenBucket(3, time.Second, 1))
	granted, now := 0, time.Duration(0)
	for now < length {
		r := mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: 1})
		if r.Allowed {
			granted++
			r = mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: 1})
			require.False(t, r.Allowed)
		}
		now += r.RetryAfter
	}
	require.Equal(t, int(3*length/time.Second), granted)
}

func TestTimeGoingBackMintsNothing(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{PerSecond(10), TokenBucket(10, time.Second, 10)} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			tab, ids := newTestTable(t, 0, l)
			require.True(t, mustApply(t, tab, 5*time.Second, "k", ids[0], limits.Op{Cost: 10}).Allowed)
			for _, now := range []time.Duration{0, 3 * time.Second, 4999 * time.Millisecond} {
				r := mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: 1})
				require.False(t, r.Allowed)
				require.LessOrEqual(t, r.RetryAfter, time.Second)
			}
			require.True(t, mustApply(t, tab, 6*time.Second, "k", ids[0], limits.Op{Cost: 10}).Allowed)
		})
	}
}

func TestEveryRateLeavesExactlyNMinusK(t *testing.T) {
	t.Parallel()
	checkEveryRate(t, 100)
}

func checkEveryRate(t *testing.T, most int64) {
	t.Helper()
	for n := int64(1); n <= most; n++ {
		tab, ids := newTestTable(t, 0, TokenBucket(n, time.Hour, n), PerHour(n))
		for k := int64(1); k <= n; k++ {
			for _, id := range ids {
				r := mustApply(t, tab, 12345, fmt.Sprint("k", id), id, limits.Op{Cost: 1})
				require.True(t, r.Allowed)
				require.Equal(t, n-k, r.Remaining)
			}
		}
		for _, id := range ids {
			require.False(t, mustApply(t, tab, 12345, fmt.Sprint("k", id), id, limits.Op{Cost: 1}).Allowed)
		}
	}
}

// wordTick returns the binary logarithm of the ns in a tick of the word of a fixed window.
func wordTick(l Limit) uint {
	var word uint64
	limits.Clock{}.Rule(spec(l)).TakeWindow(&word, 1<<62, 1, new(Result))
	return uint(word >> 58)
}
