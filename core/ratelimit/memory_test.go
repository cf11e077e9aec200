package ratelimit

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

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

// A flood of new keys must not make an indebted key forget, neither while it is
// in the table nor when it was dropped and comes back.
func TestMemoryNeverForgetsADebtInAFlood(t *testing.T) {
	t.Parallel()
	checkDebtInAFlood(t, 10_000)
}

func checkDebtInAFlood(t *testing.T, takes int) {
	t.Helper()
	for _, l := range []Limit{TokenBucket(1, time.Hour, 5), FixedWindow(5, time.Hour)} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
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

func TestMemoryShrinksAfterAFlood(t *testing.T) {
	t.Parallel()
	checkShrinks(t, 40_000)
}

func checkShrinks(t *testing.T, keys int) {
	t.Helper()
	tab, ids := newTestTable(t, 0, PerSecond(1))
	for i := range keys {
		mustApply(t, tab, time.Duration(i), fmt.Sprint(i), ids[0], limits.Op{Cost: 1})
	}
	full := slots(tab)
	require.Less(t, float64(full*16)/float64(keys), 40.0, "bytes for a key")
	for i := range 2 * keys { // ten new keys alive at a time
		mustApply(t, tab, time.Hour+time.Duration(i)*100*time.Millisecond, fmt.Sprint("x", i), ids[0], limits.Op{Cost: 1})
	}
	require.Less(t, slots(tab), full/4)
}

func slots(tab *table) (n int) {
	for i := range tab.shards {
		n += len(tab.shards[i].slots)
	}
	return n
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
		tab.each(func(s *shard) { n += len(s.accounts) - len(s.free) })
		return n
	}
	now, made := time.Second, int64(0)
	takes := func(n int64, key func(i int64) string) {
		t.Helper()
		for range n {
			made++
			plan, err := tab.Plan(limits.Limit(PerHour(made)).Specs())
			require.NoError(t, err)
			left := mustApply(t, tab, now, key(made), plan, limits.Op{Cost: 1}).Remaining
			require.Equal(t, left, mustApply(t, tab, now, key(made), plan, limits.Op{}).Remaining)
		}
	}
	takes(200_000, func(int64) string { return "one" })
	require.Zero(t, listed())
	require.Less(t, len(tab.named()), maxNumber+2)
	own := func(i int64) string { return fmt.Sprint(i) }
	takes(70_000, own)
	require.InDelta(t, 70_000-maxNumber, listed(), 2)
	now += 2 * time.Hour
	tab.each(func(s *shard) { s.sweep(tab, int64(now)) })
	require.Zero(t, listed())
	takes(10, own)
	require.Zero(t, listed(), "their numbers are free again")
}

func TestSketchIsNeverLessThanWhatWasAdded(t *testing.T) {
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
	few := newSketch(1000)
	few.add(1, limits.Debt{Until: 100, Permits: 1}, 0)
	miss := 0
	for range 1000 {
		if few.get(rng.Uint64()>>16).Until > 0 {
			miss++
		}
	}
	require.Less(t, miss, 10, "other keys owe nothing")
}

// New clients are still served while ten times as many keys come as there is
// room for, though what was dropped counts against some of them.
func TestMemoryServesNewKeysInAFlood(t *testing.T) {
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
