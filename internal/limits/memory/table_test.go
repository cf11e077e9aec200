package memory

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
)

// Limits as core/ratelimit makes them.
type Limit limits.Limit

func of(s limits.Spec) Limit { return Limit(limits.Of(s)) }

func FixedWindow(n int64, period time.Duration) Limit {
	return of(limits.Spec{Permits: n, Period: period})
}

func PerSecond(n int64) Limit { return FixedWindow(n, time.Second) }
func PerMinute(n int64) Limit { return FixedWindow(n, time.Minute) }
func PerHour(n int64) Limit   { return FixedWindow(n, time.Hour) }

func AlignedWindow(n int64, period time.Duration) Limit {
	return of(limits.Spec{Permits: n, Period: period, Aligned: true})
}

func SlidingWindow(n int64, period time.Duration, segments int) Limit {
	return of(limits.Spec{Algorithm: limits.SlidingWindow, Permits: n, Period: period, Segments: segments})
}

func SlidingCounter(n int64, period time.Duration) Limit {
	return of(limits.Spec{Algorithm: limits.SlidingCounter, Permits: n, Period: period})
}

func SlidingLog(n int64, period time.Duration) Limit {
	return of(limits.Spec{Algorithm: limits.SlidingLog, Permits: n, Period: period})
}

func TokenBucket(n int64, period time.Duration, burst int64) Limit {
	return of(limits.Spec{Algorithm: limits.TokenBucket, Permits: n, Period: period, Burst: burst})
}

func (l Limit) And(other Limit) Limit { return Limit(limits.Limit(l).And(limits.Limit(other))) }
func (l Limit) String() string        { return fmt.Sprint(limits.Limit(l).Specs()) }

func (l Limit) check() error {
	if reason := limits.Limit(l).Refuse(); reason != "" {
		return errors.New(reason)
	}
	return nil
}

func spec(l Limit) limits.Spec { return limits.Limit(l).Specs()[0] }

// parts are the limits that And has joined.
func parts(l Limit) (all []Limit) {
	for _, s := range limits.Limit(l).Specs() {
		all = append(all, of(s))
	}
	return all
}

// every is a limit of n permits in a period, by each algorithm.
func every(n int64, period time.Duration) []Limit {
	return []Limit{
		FixedWindow(n, period), AlignedWindow(n, period), TokenBucket(n, period, n),
		SlidingWindow(n, period, 10), SlidingCounter(n, period), SlidingLog(n, period),
	}
}

// inBubbles has a test of each limit, in virtual time.
func inBubbles(t *testing.T, all []Limit, test func(t *testing.T, l Limit)) {
	t.Helper()
	for _, l := range all {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, l) })
		})
	}
}

// few keys have a table of 4 shards, each with a lock. The 256 of many keys make a test of one key slow, above all under the race
// detector.
const few = 64

// newTestTable is a table and the plans of some limits.
func newTestTable(tb testing.TB, maxKeys int, all ...Limit) (*Table, []*limits.Plan) {
	tb.Helper()
	tab := New(maxKeys)
	ids := make([]*limits.Plan, len(all))
	for i, l := range all {
		var err error
		require.NoError(tb, l.check(), "%v", l)
		ids[i], err = tab.Plan(limits.Limit(l).Specs())
		require.NoError(tb, err)
	}
	return tab, ids
}

// eitherAt is applyAt or, every other nanosecond, takeOne where that can do it.
func eitherAt(t *Table, now int64, key string, id *limits.Plan, op limits.Op) (r limits.Result, err error) {
	one := now%2 == 0 && op.Kind == limits.Take && len(id.Rules) == 1 && !id.Rules[0].Listed()
	if one && t.takeOne(now, key, id.Rules[0], op.Cost, true, true, &r) {
		return r, nil
	}
	return t.applyAt(now, key, id, &op)
}

// mustApply applies at a time.
//
//nolint:thelper // see below
func mustApply(tb testing.TB, tab *Table, now time.Duration, key string, id *limits.Plan, op limits.Op) limits.Result {
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
	require.NoError(t, l.check())
	_, _, unit := limits.Clock{}.Rule(spec(l)).Bucket()
	require.Greater(t, unit, int64(1))
	tab, ids := newTestTable(t, 0, l)
	require.EqualValues(t, 0, mustApply(t, tab, 5, "k", ids[0], limits.Op{Cost: spec(l).Burst}).Remaining)
	r := mustApply(t, tab, 5, "k", ids[0], limits.Op{Cost: 7})
	require.False(t, r.Allowed)
	require.False(t, mustApply(t, tab, 5+r.RetryAfter-1, "k", ids[0], limits.Op{Cost: 7}).Allowed)
	require.True(t, mustApply(t, tab, 5+r.RetryAfter, "k", ids[0], limits.Op{Cost: 7}).Allowed)
	r = mustApply(t, tab, 24*time.Hour+5+r.RetryAfter+1000, "k", ids[0], limits.Op{})
	require.EqualValues(t, spec(l).Burst, r.Remaining, "a day repays all")
}

func TestKeyAfterAnyTimeAway(t *testing.T) {
	t.Parallel()
	all := []Limit{
		PerMinute(5), PerSecond(3), FixedWindow(1000, 24*time.Hour), TokenBucket(3, time.Second, 3),
		TokenBucket(999_999_937, time.Second, 999_999_937), TokenBucket(299, time.Hour, 299),
		TokenBucket(1_000_003, 24*time.Hour, 9), FixedWindow(1, limits.MaxPeriod), TokenBucket(1, limits.MaxPeriod, 1), FixedWindow(limits.MaxPermits, time.Second),
	}
	inBubbles(t, all, func(t *testing.T, l Limit) {
		t.Helper()
		for away := time.Duration(1); away > 0 && away < 200*365*24*time.Hour; away *= 3 {
			tab, ids := newTestTable(t, few, l)
			took := mustApply(t, tab, 1000, "k", ids[0], limits.Op{Cost: capacityOf(l)})
			require.Zero(t, took.Remaining)
			r := mustApply(t, tab, 1000+away, "k", ids[0], limits.Op{})
			if away >= took.FullAfter {
				require.Equal(t, capacityOf(l), r.Remaining, "after %v", away)
				require.Zero(t, r.FullAfter)
			} else {
				require.Less(t, r.Remaining, capacityOf(l), "after %v", away)
				require.LessOrEqual(t, r.FullAfter, took.FullAfter)
			}
		}
	})
}

// wordTick returns the binary logarithm of the ns in a tick of the word of a fixed window.
func wordTick(l Limit) uint {
	var word uint64
	limits.Clock{}.Rule(spec(l)).TakeWindow(&word, 1<<62, 1, new(limits.Result))
	return uint(word >> 58)
}

func TestMemoryDropsNeutralKeysFirst(t *testing.T) {
	t.Parallel()
	tab, ids := newTestTable(t, 1000, PerMinute(1)) // so large that no shard is full of keys in debt, whatever the seed
	for i := range 1000 {
		mustApply(t, tab, time.Duration(i), fmt.Sprint("old", i), ids[0], limits.Op{Cost: 1})
	}
	for i := range 5000 { // each second new keys; those of a minute ago are neutral
		now := time.Hour + time.Duration(i)*2*time.Second
		require.True(t, mustApply(t, tab, now, fmt.Sprint("new", i), ids[0], limits.Op{Cost: 1}).Allowed)
	}
	require.LessOrEqual(t, tab.keys.Load(), int64(1000+len(tab.shards)))
	require.Zero(t, tab.evicted.Load(), "only neutral keys were dropped")
}

func TestMemoryNeverForgetsADebt(t *testing.T) {
	t.Parallel()
	checkDebtInAFlood(t, 10_000)
}

// A flood of new keys must not make an indebted key forget, neither while it is in the table nor when it was dropped and comes back;
// and new ones are served, though what was dropped counts against some of them.
func checkDebtInAFlood(t *testing.T, takes int) {
	t.Helper()
	inBubbles(t, []Limit{TokenBucket(1, time.Hour, 5), FixedWindow(5, time.Hour)}, func(t *testing.T, l Limit) {
		t.Helper()
		tab, ids := newTestTable(t, 1000, l)
		rng := rand.New(rand.NewPCG(7, 8))
		admitted := map[string]int64{}
		for i := range takes {
			key := fmt.Sprint("flood", i)
			if i%2 == 0 { // 3000 keys that come back all the time
				key = fmt.Sprint("back", rng.IntN(3000))
			}
			r := mustApply(t, tab, time.Duration(i)*time.Millisecond, key, ids[0], limits.Op{Cost: 1 + rng.Int64N(5)})
			admitted[key] += r.Permits
		}
		for key, n := range admitted {
			require.LessOrEqual(t, n, int64(5), "key %s, in %d ms of an hour", key, takes)
		}
		require.Positive(t, tab.evicted.Load(), "the flood is larger than the table")
		require.LessOrEqual(t, tab.keys.Load(), int64(1000+len(tab.shards)))
	})
}

// TestRecoveredKeyTakesNoRefundAlong: only an eviction of a bucket with usage, whose takes were moved, has its shard refuse refunds.
func TestRecoveredKeyTakesNoRefundAlong(t *testing.T) {
	t.Parallel()
	for recovered, left := range map[time.Duration]int64{time.Second: 96, 50 * time.Second: 100} {
		tab, ids := newTestTable(t, 16, TokenBucket(1, time.Second, 100), PerHour(100))
		first := mustApply(t, tab, 0, "moved", ids[0], limits.Op{Cost: 5})
		mustApply(t, tab, 0, "moved", ids[0], limits.Op{Cost: 15})
		mustApply(t, tab, 0, "moved", ids[0], limits.Op{Kind: limits.Refund, Cost: 5, Receipt: first.Receipt})
		took := mustApply(t, tab, 0, "k", ids[1], limits.Op{Cost: 4})
		for i := range 14 {
			mustApply(t, tab, 0, fmt.Sprint(i), ids[1], limits.Op{Cost: 90})
		}
		mustApply(t, tab, recovered, "in the place of moved", ids[1], limits.Op{Cost: 1})
		r := mustApply(t, tab, recovered, "k", ids[1], limits.Op{Kind: limits.Refund, Cost: 4, Receipt: took.Receipt})
		require.Equal(t, left, r.Remaining, "%v", recovered)
	}
}

func TestMemoryKeepsTheMostIndebted(t *testing.T) {
	t.Parallel()
	tab, ids := newTestTable(t, 200, TokenBucket(1, time.Second, 1000))
	mustApply(t, tab, 0, "heavy", ids[0], limits.Op{Cost: 1000})
	for i := range 20_000 {
		mustApply(t, tab, time.Duration(i), fmt.Sprint(i), ids[0], limits.Op{Cost: 1})
	}
	hash := maphash.String(tab.seed, "heavy")
	_, found := tab.shards[hash&uint64(len(tab.shards)-1)].find(hash)
	require.True(t, found, "those that owe less were dropped")
	r := mustApply(t, tab, 20_000, "heavy", ids[0], limits.Op{Cost: 1})
	require.False(t, r.Allowed)
	require.Equal(t, time.Second-20*time.Microsecond, r.RetryAfter, "to the nanosecond")
}

// The table must do what a map does, whatever comes in what order.
func TestMemoryAgreesWithAMap(t *testing.T) {
	t.Parallel()
	checkAgainstAMap(t, 40_000)
}

func checkAgainstAMap(t *testing.T, ops int) {
	t.Helper()
	tab, ids := newTestTable(t, 0, FixedWindow(1000, 100*time.Hour))
	rng := rand.New(rand.NewPCG(5, 6))
	used := map[string]int64{}
	for i := range ops {
		key := fmt.Sprint(rng.IntN(5000))
		if rng.IntN(3) == 0 {
			mustApply(t, tab, time.Duration(i), key, ids[0], limits.Op{Kind: limits.Reset})
			delete(used, key)
			continue
		}
		cost := rng.Int64N(3)
		used[key] += cost
		require.Equal(t, 1000-used[key], mustApply(t, tab, time.Duration(i), key, ids[0], limits.Op{Cost: cost}).Remaining)
		if used[key] == 0 {
			delete(used, key)
		}
	}
	require.EqualValues(t, len(used), tab.keys.Load())
}

// TestMemoryOfManyLimits: slots have numbers for 65,535 limits. Those of further ones take more memory, and
// numbers that no slot has are given again.
func TestMemoryOfManyLimits(t *testing.T) {
	t.Parallel()
	tab, _ := newTestTable(t, 0)
	listed := func() (n int) {
		tab.each(func(s *shard) { n += len(s.lists) })
		return n
	}
	now, made := time.Second, int64(0)
	takes := func(n int64, key func(i int64) string) {
		t.Helper()
		for range n {
			made++
			plan, err := tab.Plan(limits.Limit(PerHour(made)).Specs())
			if err != nil {
				t.Fatal(err)
			}
			took := mustApply(t, tab, now, key(made), plan, limits.Op{Cost: 1}).Remaining
			if left := mustApply(t, tab, now, key(made), plan, limits.Op{}).Remaining; left != took {
				t.Fatalf("limit %d: %d left, then %d", made, took, left)
			}
		}
	}
	takes(66_000, func(int64) string { return "one" })
	require.Zero(t, listed())
	require.Less(t, len(tab.named()), maxNumber+2)
	own := func(i int64) string { return strconv.FormatInt(i, 10) }
	takes(66_000, own)
	require.InDelta(t, 66_000-maxNumber, listed(), 2)
	now += 2 * time.Hour
	tab.each(func(s *shard) { s.sweep(tab, int64(now)) })
	require.Zero(t, listed())
	takes(10, own)
	require.Zero(t, listed(), "their numbers are free again")
}

func TestSketchIsNeverLess(t *testing.T) {
	t.Parallel()
	s := newSketch(1000)
	rng := rand.New(rand.NewPCG(9, 10))
	want := map[uint64]limits.Debt{}
	const now = 1000
	for range 5000 {
		k, d := rng.Uint64()>>16, limits.Debt{Until: 1 + rng.Int64N(1<<40), Permits: rng.Int64N(100)}
		if d.Until > now {
			want[k] = d
		}
		s.add(k, d, now)
	}
	for k, d := range want {
		got := s.get(k)
		require.GreaterOrEqual(t, got.Until, d.Until)
		require.GreaterOrEqual(t, got.Permits, d.Permits)
	}
	one := newSketch(1000)
	one.add(1, limits.Debt{Until: 100, Permits: 1}, 0)
	miss := 0
	for range 1000 {
		if one.get(rng.Uint64()>>16).Until > 0 {
			miss++
		}
	}
	require.Less(t, miss, 10, "other keys owe nothing")
}

// New clients are still served while ten times as many keys come as there is room for.
func TestMemoryServesNewKeys(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{TokenBucket(10, time.Hour, 10), FixedWindow(10, time.Hour)} {
		tab, ids := newTestTable(t, 1000, l)
		for i := range 10_000 {
			r := mustApply(t, tab, time.Duration(i), fmt.Sprint(i), ids[0], limits.Op{Cost: 1})
			require.True(t, r.Allowed, "%v: new key %d", l, i)
			require.GreaterOrEqual(t, r.Remaining, int64(5), "%v: new key %d", l, i)
		}
	}
}

func TestShardsStaySmall(t *testing.T) {
	t.Parallel()
	for maxKeys, want := range map[int]int{1: 1, 16: 1, 100: 4, 5000: 256, DefaultMaxKeys: 256, 1 << 24: 4096, MaxMaxKeys: 1 << 16} {
		require.Equal(t, want, shardsFor(maxKeys), "%d keys", maxKeys)
	}
}

// TestFlood has three times as many fresh keys as there is room for: a key that owed all still
// does, and memory stays where it was. `make soak` has more of both.
func TestFlood(t *testing.T) { checkFlood(t, 2000, 3) } //nolint:paralleltest // the heap is measured

func checkFlood(t *testing.T, most, times int) {
	t.Helper()
	const n = 5
	owe := most / 4
	for _, l := range append(every(n, limits.MaxPeriod), FixedWindow(n, time.Hour).And(SlidingLog(n+1, 2*time.Hour))) {
		for _, cost := range []int64{1, n} { // of those that are fresh
			t.Run(fmt.Sprintf("%v by %d", l, cost), func(t *testing.T) {
				before := heap()
				tab, ids := newTestTable(t, most, l)
				now := time.Duration(0)
				flood := func(name string, keys int) {
					for i := range keys {
						now += time.Microsecond
						mustApply(t, tab, now, fmt.Sprint(name, i), ids[0], limits.Op{Cost: cost})
					}
				}
				for i := range owe {
					require.True(t, mustApply(t, tab, now, fmt.Sprint("owes", i), ids[0], limits.Op{Cost: n}).Allowed)
				}
				flood("first", most)
				filled := heap() - before
				flood("fresh", times*most)
				flooded := heap() - before
				require.LessOrEqual(t, tab.keys.Load(), int64(most+most/16))
				require.Positive(t, tab.evicted.Load())
				require.Less(t, flooded, filled*5/4+64<<10, "bytes, of %d when the table was full", filled)
				for i := range owe {
					r := mustApply(t, tab, now, fmt.Sprint("owes", i), ids[0], limits.Op{Cost: 1})
					require.False(t, r.Allowed, "key %d of those that owe all", i)
					require.Zero(t, r.Remaining)
				}
				runtime.KeepAlive(tab)
				t.Logf("%d bytes when full, %d after the flood", filled, flooded)
			})
		}
	}
}

// sweptLimits are limits of every algorithm under which a key that took 1 permit owes
// nothing after 10 seconds at the most.
func sweptLimits() []Limit {
	return []Limit{
		TokenBucket(10, time.Second, 20), TokenBucket(1_000_003, time.Second, 1_000_003), TokenBucket(1, time.Second, 1),
		TokenBucket(5, 10*time.Second, 5), PerSecond(1), PerSecond(1e9), FixedWindow(3, 5*time.Second), AlignedWindow(3, time.Second),
		SlidingWindow(5, time.Second, 10), SlidingCounter(5, 5*time.Second), SlidingLog(5, time.Second),
		PerSecond(10).And(TokenBucket(5, time.Second, 5)).And(SlidingLog(5, 2*time.Second)).And(SlidingCounter(9, time.Second)),
	}
}

// What a table holds beside its shards.
type holds struct{ keys, slots, lists, sketches int }

func held0(t *Table) (h holds) {
	h.keys = int(t.keys.Load())
	for i := range t.shards {
		s := &t.shards[i]
		h.slots, h.lists = h.slots+len(s.slots), h.lists+max(len(s.lists), s.peak)
		if s.sketch != nil {
			h.sketches++
		}
	}
	return h
}

// flood has keys 0 to n take one permit each.
func flood(t *testing.T, tab *Table, id *limits.Plan, now time.Duration, n int) {
	t.Helper()
	for i := range n {
		mustApply(t, tab, now, fmt.Sprint("flood", i), id, limits.Op{Cost: 1})
	}
}

// After a flood little traffic is enough, of whatever kind, for the memory to come back
// within minutes: of the keys that owe nothing none is left.
func TestMemoryComesBackInMinutes(t *testing.T) {
	t.Parallel()
	for _, l := range sweptLimits() {
		for kind, op := range map[string]limits.Op{
			"take": {Cost: 1}, "peek": {}, "refund": {Kind: limits.Refund, Cost: 1}, "reset": {Kind: limits.Reset},
		} {
			for _, every := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
				if every < time.Minute && kind != "take" {
					continue
				}
				t.Run(fmt.Sprintf("%v/%s each %v", l, kind, every), func(t *testing.T) {
					t.Parallel()
					const n = 2_000
					synctest.Test(t, func(t *testing.T) { // where no sweep takes long
						tab, ids := newTestTable(t, 0, l)
						flood(t, tab, ids[0], 0, n)
						require.GreaterOrEqual(t, held0(tab).keys, n)
						for now := every; now <= 10*time.Second+2*time.Minute+every; now += every {
							mustApply(t, tab, now, "one", ids[0], op)
						}
						h := held0(tab)
						require.LessOrEqual(t, h.keys, len(parts(l)))
						require.LessOrEqual(t, h.slots, 8*len(parts(l)))
						require.LessOrEqual(t, h.lists, 16)
					})
				})
			}
		}
	}
}

// The turns of the shards are spread over the minute: no call sweeps many of them unless
// there was a pause.
func TestSweepsAreSpreadOverTheCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab, ids := newTestTable(t, 0, TokenBucket(1, time.Second, 1))
		step := time.Minute / time.Duration(len(tab.shards))
		before := uint64(0)
		for now := time.Minute; now < 3*time.Minute; now += step {
			mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: 1})
			require.LessOrEqual(t, tab.turn.Load()-before, uint64(2))
			before = tab.turn.Load()
		}
		require.InDelta(t, 2*len(tab.shards), before, 4)
		mustApply(t, tab, time.Hour, "k", ids[0], limits.Op{Cost: 1})
		require.EqualValues(t, len(tab.shards), tab.turn.Load()-before, "a pause needs one round and no more")
	})
}

// A call sweeps for a bounded time: after a pause the next calls do the rest.
func TestSweepAfterAPauseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab, ids := newTestTable(t, 0, PerSecond(5))
		tab.swept = func() { time.Sleep(4 * time.Millisecond) }
		flood(t, tab, ids[0], 0, 1000)
		begun, calls := time.Now(), 0
		for tab.keys.Load() > 1 || tab.turn.Load() < uint64(len(tab.shards)) {
			before := time.Now()
			mustApply(t, tab, time.Hour, "one", ids[0], limits.Op{})
			require.Less(t, time.Since(before), 10*time.Millisecond+8*time.Millisecond, "10 ms and a shard")
			calls++
		}
		once := 4 * time.Millisecond * time.Duration(len(tab.shards))
		require.InDelta(t, once, time.Since(begun), float64(4*time.Millisecond), "each shard was swept once")
		require.Greater(t, calls, 30)
		for range 100 {
			mustApply(t, tab, time.Hour, "one", ids[0], limits.Op{})
		}
		require.InDelta(t, len(tab.shards), tab.turn.Load(), 1)
	})
}

// Keys that still owe are neither dropped nor read wrong when others go, and what they hold
// beside their slots shrinks with the table.
func TestKeyThatOwesOutlivesTheFlood(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, l := range append(every(100, limits.MaxPeriod), FixedWindow(1e9, limits.MaxPeriod), FixedWindow(100, day).And(SlidingLog(100, day))) {
		for _, soon := range []Limit{TokenBucket(10, time.Second, 20), SlidingLog(5, time.Second)} {
			t.Run(fmt.Sprintf("%v in a flood of %v", l, soon), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					tab, ids := newTestTable(t, 0, l, soon)
					for i := range 300 {
						mustApply(t, tab, time.Duration(i), fmt.Sprint("owes", i), ids[0], limits.Op{Cost: 30})
					}
					flood(t, tab, ids[1], 300, 5_000)
					for now := time.Second; now < 20*time.Minute; now += 7 * time.Second {
						mustApply(t, tab, now, "one", ids[1], limits.Op{})
					}
					h := held0(tab)
					require.Equal(t, 300, h.keys)
					require.LessOrEqual(t, h.slots, 8*256)
					require.LessOrEqual(t, h.lists, 6*300)
					for i := range 300 {
						r := mustApply(t, tab, 20*time.Minute, fmt.Sprint("owes", i), ids[0], limits.Op{})
						require.Equal(t, capacityOf(l)-30, r.Remaining)
					}
				})
			})
		}
	}
}

// A flood above MaxKeys leaves a sketch of what the dropped keys owed. It goes when all of
// it is repaid, and not before.
func TestSketchGoesWhenRepaid(t *testing.T) {
	t.Parallel()
	inBubbles(t, []Limit{
		TokenBucket(1, time.Minute, 5), FixedWindow(5, 5*time.Minute), SlidingWindow(5, 5*time.Minute, 5),
		SlidingCounter(5, 150*time.Second), SlidingLog(5, 5*time.Minute),
	}, func(t *testing.T, l Limit) {
		t.Helper()
		tab, ids := newTestTable(t, 1000, l)
		for i := range 5000 {
			mustApply(t, tab, 0, fmt.Sprint(i), ids[0], limits.Op{Cost: 5})
		}
		require.Positive(t, held0(tab).sketches)
		mustApply(t, tab, 5*time.Minute-1, "one", ids[0], limits.Op{Cost: 1})
		require.Positive(t, held0(tab).sketches)
		for i := range 5000 {
			require.Less(t, mustApply(t, tab, 4*time.Minute, fmt.Sprint(i), ids[0], limits.Op{}).Remaining, int64(5))
		}
		for now := 5 * time.Minute; now <= 8*time.Minute; now += time.Minute {
			mustApply(t, tab, now, "one", ids[0], limits.Op{})
		}
		require.Zero(t, held0(tab).sketches)
		require.LessOrEqual(t, held0(tab).keys, 1)
	})
}

// Each second a call is enough for many keys too.
func TestManyBucketsAreGoneInMinutes(t *testing.T) {
	t.Parallel()
	checkSweep(t, 50_000)
}

func checkSweep(t *testing.T, n int) {
	t.Helper()
	tab, ids := newTestTable(t, 0, TokenBucket(10, time.Second, 10))
	flood(t, tab, ids[0], 0, n)
	require.EqualValues(t, n, tab.keys.Load())
	require.Less(t, float64(held0(tab).slots*16)/float64(n), 40.0, "bytes for a key")
	for now := time.Minute; now <= 3*time.Minute; now += time.Second {
		mustApply(t, tab, now, "one", ids[0], limits.Op{Cost: 1})
	}
	require.EqualValues(t, 1, tab.keys.Load())
	require.LessOrEqual(t, held0(tab).slots, 8)
}

// A window whose start is kept in long ticks ends between two of them. The key is not dropped before
// the tick is over: it would begin its next window in that tick, before the last one is over.
func TestSweepStartsNoWindowEarly(t *testing.T) {
	t.Parallel()
	minute := FixedWindow(1e9, time.Minute)
	inBubbles(t, []Limit{
		FixedWindow(limits.MaxPermits, limits.MaxPeriod), minute, FixedWindow(1, limits.MaxPeriod), minute.And(FixedWindow(1e10, time.Hour)),
	}, func(t *testing.T, l Limit) {
		t.Helper()
		tab, ids := newTestTable(t, 0, l)
		cost := spec(l).Permits
		const start = 1_234_567_891_234
		end := start + mustApply(t, tab, start, "k", ids[0], limits.Op{Cost: cost}).FullAfter
		for i := range tab.shards {
			tab.shards[i].sweep(tab, int64(end))
		}
		full := mustApply(t, tab, end, "k", ids[0], limits.Op{Cost: cost})
		require.True(t, full.Allowed)
		require.GreaterOrEqual(t, full.FullAfter, spec(l).Period)
		later := end + full.FullAfter
		for i := range tab.shards {
			tab.shards[i].sweep(tab, int64(later+3*spec(l).Period+3*time.Hour))
		}
		require.Zero(t, tab.keys.Load(), "a key that owes nothing is dropped")
	})
}

// Two tables are given the same, one of them by takeOne where that can do it.
func TestTakeOneIsApply(t *testing.T) {
	t.Parallel()
	checkTakeOne(t, 30)
}

func checkTakeOne(t *testing.T, numbers int) {
	t.Helper()
	done := 0
	for i := range numbers {
		rng := rand.New(rand.NewPCG(uint64(i), 6))
		l := randomLimit(rng, []limits.Algorithm{limits.FixedWindow, limits.TokenBucket}[i%2])
		if i%5 == 0 { // its words must be read again after seconds, far more often than shards are swept
			l = TokenBucket(999_999_999, time.Second, 999_999_999)
		}
		s := spec(l)
		s.Aligned = false // by the time of day at which a table is made
		l = of(s)
		s.Permits++
		other := of(s)
		a, ofA := newTestTable(t, few, l, other)
		b, ofB := newTestTable(t, few, l, other)
		now, period, capacity := int64(0), int64(spec(l).Period), capacityOf(l)
		for range 300 {
			switch rng.IntN(10) {
			case 0:
				now += rng.Int64N(4*period + 1)
			case 1: // so far that old and new words look alike
				if h := a.Horizon(); h < math.MaxInt64/1000 && now < math.MaxInt64/2 {
					now += h * rng.Int64N(20)
				}
				for other, ids := range map[*Table][]*limits.Plan{a: ofA, b: ofB} { // sweeps those shards whose turn it is
					_, err := other.applyAt(max(0, now-3), "other", ids[0], &limits.Op{Cost: 1})
					require.NoError(t, err)
				}
			default:
				now += rng.Int64N(period/capacity + 2)
			}
			kinds := []limits.OpKind{limits.Take, limits.Take, limits.Take, limits.Reserve, limits.Drain}
			op := limits.Op{Kind: kinds[rng.IntN(5)], Cost: rng.Int64N(min(capacity, 5) + 2), MaxWait: 2 * spec(l).Period}
			id := 0
			if rng.IntN(150) == 0 {
				id = 1
			}
			late := now - rng.Int64N(3)
			want, err := a.applyAt(late, "k", ofA[id], &op)
			require.NoError(t, err)
			var got limits.Result
			if op.Kind == limits.Take && b.takeOne(late, "k", ofB[id].Rules[0], op.Cost, true, true, &got) {
				done++
			} else {
				got, err = b.applyAt(late, "k", ofB[id], &op)
				require.NoError(t, err)
			}
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%v: %+v at %d: %+v, not %+v", l, op, now, got, want)
			}
		}
	}
	require.Greater(t, done, numbers*34)
}

func TestKeysThatComeAgainKeepTheirSlots(t *testing.T) {
	t.Parallel()
	tab, ids := newTestTable(t, 0, TokenBucket(1_000_000, time.Second, 1))
	id := ids[0]
	for round := range 5 {
		missed := 0
		for key := range 10_000 {
			now := int64(2*time.Second) + int64(round)*int64(100*time.Millisecond) + int64(key)*2000 // each is full again
			var r limits.Result
			if name := fmt.Sprint(key); !tab.takeOne(now, name, id.Rules[0], 1, true, true, &r) {
				missed++
				_, err := tab.applyAt(now, name, id, &limits.Op{Cost: 1})
				require.NoError(t, err)
			}
		}
		require.Equal(t, map[bool]int{true: 10_000, false: 0}[round == 0], missed)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestLogGivesItsMemoryBack(t *testing.T) { //nolint:paralleltest // it measures the heap
	const keys = 150
	before := heap()
	tab, ids := newTestTable(t, 0, SlidingLog(1000, time.Second))
	takes := func(now time.Duration) {
		for k := range keys {
			require.True(t, mustApply(t, tab, now, fmt.Sprint(k), ids[0], limits.Op{Cost: 1}).Allowed)
		}
	}
	for i := range 990 {
		takes(time.Duration(i))
	}
	for i := range 10 { // they are never forgotten as a whole
		takes(time.Duration(i+1) * 900 * time.Millisecond)
	}
	require.Less(t, heap()-before, int64(1000*keys), "a kilobyte a key; it had sixteen")
	runtime.KeepAlive(tab)
}

func TestOweRaisesAndNeverForgives(t *testing.T) {
	t.Parallel()
	const period = time.Hour
	for i, limit := range append(every(10, period), FixedWindow(10, period).And(SlidingLog(10, period))) {
		synctest.Test(t, func(t *testing.T) {
			table, ids := newTestTable(t, 0, limit)
			id, owe := ids[0], table.Owe
			apply := func(op limits.Op) limits.Result {
				r, err := table.Apply(t.Context(), "k", id, op)
				require.NoError(t, err)
				return r
			}
			life, later := period, period*6/10
			if spec(limit).Algorithm == limits.SlidingCounter {
				life, later = 2*period, 2*period
			}
			require.NoError(t, owe("k", id, 6, time.Now()))
			require.EqualValues(t, 10, apply(limits.Op{}).Remaining, "it is over: %v", limit)
			until := time.Now().Add(later)
			require.NoError(t, owe("k", id, 6, until))
			r := apply(limits.Op{})
			require.EqualValues(t, 4, r.Remaining, "%v", limit)
			if i != 1 { // which is aligned
				require.InDelta(t, later, r.FullAfter, float64(time.Millisecond), "%v", limit)
			}
			require.NoError(t, owe("k", id, 2, time.Now().Add(life*2/10)))
			require.Equal(t, r, apply(limits.Op{}), "it owes more already: %v", limit)
			require.True(t, apply(limits.Op{Cost: 4}).Allowed)
			require.NoError(t, owe("k", id, 6, until))
			require.Zero(t, apply(limits.Op{}).Remaining, "%v", limit)
			time.Sleep(2 * life)
			require.EqualValues(t, 10, apply(limits.Op{}).Remaining, "%v", limit)
			require.ErrorIs(t, owe("k", id, -1, until), core.ErrConfig)
		})
	}
}

// TestOweAfterARefund: a debt leaves it known that a refund has moved the takes after it, so they are found.
func TestOweAfterARefund(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, ids := newTestTable(t, 0, TokenBucket(1, time.Second, 10))
		apply := func(op limits.Op) limits.Result {
			r, err := table.Apply(t.Context(), "k", ids[0], op)
			require.NoError(t, err)
			return r
		}
		refund := func(of limits.Result) int64 {
			return apply(limits.Op{Kind: limits.Refund, Cost: of.Permits, Receipt: of.Receipt}).Remaining
		}
		first, second := apply(limits.Op{Cost: 4}), apply(limits.Op{Cost: 4})
		require.EqualValues(t, 6, refund(first))
		require.NoError(t, table.Owe("k", ids[0], 6, time.Now().Add(6*time.Second)))
		require.EqualValues(t, 8, refund(second))
	})
}
