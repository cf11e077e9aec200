package ratelimit

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/registry"
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
		s := spec(l)
		s.Aligned = false // by the time of day at which a table is made
		l = of(s)
		s.Permits++
		other := of(s)
		a, ofA := newTestTable(t, 0, l, other)
		b, ofB := newTestTable(t, 0, l, other)
		now, period, capacity := int64(0), int64(spec(l).Period), limits.Limit(l).Capacity()
		for range 300 {
			switch rng.IntN(10) {
			case 0:
				now += rng.Int64N(4*period + 1)
			case 1: // so far that old and new words look alike
				if h := a.Horizon(); h < math.MaxInt64/1000 && now < math.MaxInt64/2 {
					now += h * rng.Int64N(20)
				}
			default:
				now += rng.Int64N(period/capacity + 2)
			}
			op := limits.Op{Kind: []limits.OpKind{limits.Take, limits.Take, limits.Take, limits.Reserve, limits.Drain}[rng.IntN(5)], Cost: rng.Int64N(min(capacity, 5) + 2), MaxWait: 2 * spec(l).Period}
			id := 0
			if rng.IntN(150) == 0 {
				id = 1
			}
			late := now - rng.Int64N(3)
			want, err := a.applyAt(late, "k", ofA[id], &op)
			require.NoError(t, err)
			var got Result
			if op.Kind == limits.Take && b.takeOne(late, "k", ofB[id].Rules[0], op.Cost, true, &got) {
				done++
			} else {
				got, err = b.applyAt(late, "k", ofB[id], &op)
				require.NoError(t, err)
			}
			require.Equal(t, want, got, "%v: %+v at %d", l, op, now)
		}
	}
	require.Greater(t, done, numbers*34)
}

// A key may have a slot of the new limit already, from a tier, and still owe under the
// one before.
func TestALimitThatAKeyHasBeenHeldToAlready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		window := FixedWindow(10, time.Hour)
		l, err := New(Config{Limit: TokenBucket(10, time.Hour, 10), Limits: map[string]Limit{"tier": window}})
		require.NoError(t, err)
		tier := l.Under("tier")
		take := func(l *Limiter, n int64) int64 {
			r, err := l.Take(t.Context(), "k", n)
			require.NoError(t, err)
			require.True(t, r.Allowed)
			return r.Remaining
		}
		require.EqualValues(t, 6, take(l, 4))
		require.EqualValues(t, 5, take(tier, 1))
		putLimit(t, l, window)
		require.EqualValues(t, 4, take(l, 1))
	})
}

func TestKeysThatComeAgainKeepTheirSlots(t *testing.T) {
	t.Parallel()
	tab, ids := newTestTable(t, 0, TokenBucket(1_000_000, time.Second, 1))
	id := ids[0]
	for round := range 5 {
		missed := 0
		for key := range 10_000 {
			now := int64(2*time.Second) + int64(round)*int64(100*time.Millisecond) + int64(key)*2000 // each is full again
			var r Result
			if name := fmt.Sprint(key); !tab.takeOne(now, name, id.Rules[0], 1, true, &r) {
				missed++
				_, err := tab.applyAt(now, name, id, &limits.Op{Cost: 1})
				require.NoError(t, err)
			}
		}
		require.Equal(t, map[bool]int{true: 10_000, false: 0}[round == 0], missed)
	}
}

func TestDecisionsAreReported(t *testing.T) {
	t.Parallel()
	var told []string
	l, err := New(Config{Limit: PerHour(2), Registry: eventtest.Registry(func(_ context.Context, e registry.Event) { told = append(told, e.Text+" "+e.Key) })})
	require.NoError(t, err)
	for range 3 { // the first makes the slot
		_, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
	}
	s := l.Stats()
	require.Equal(t, []uint64{2, 1}, []uint64{s.Allowed, s.Rejected})
	require.Equal(t, []string{"permits granted k", "permits granted k", "permits refused k"}, told)
}

// What a limiter decides while its limits are changed, some of its keys have limits of their own,
// and time passes, does not depend on takeOne.
func TestSettingsDoNotDependOnTakeOne(t *testing.T) {
	t.Parallel()
	checkSettings(t, 9)
}

func putLimit(tb testing.TB, l *Limiter, limit Limit) {
	tb.Helper()
	cfg := l.Config()
	cfg.Limit = limit
	require.NoError(tb, l.SetConfig(cfg))
}

func checkSettings(t *testing.T, seeds uint64) {
	t.Helper()
	kinds := [][]Limit{
		{TokenBucket(3, time.Second, 5), TokenBucket(7, time.Second, 20), TokenBucket(1, time.Second, 2), PerSecond(4)},
		{PerSecond(4), PerSecond(9), FixedWindow(3, 2*time.Second), AlignedWindow(5, time.Second)},
		{TokenBucket(3, time.Second, 5), SlidingWindow(6, time.Second, 4), TokenBucket(7, time.Second, 20), PerSecond(3).And(PerMinute(9))},
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			those := kinds[seed%uint64(len(kinds))]
			a, err := New(Config{Limit: those[0]})
			require.NoError(t, err)
			b, err := New(Config{Limit: those[0]})
			require.NoError(t, err)
			b.current.Load().main.one = nil // so there is no takeOne
			direct, changed := 0, false
			for range 2000 {
				key := fmt.Sprint(r.IntN(3))
				switch limit := those[r.IntN(len(those))]; r.IntN(40) {
				case 0:
					changed = true
					putLimit(t, a, limit)
					putLimit(t, b, limit)
					b.current.Load().main.one = nil
				case 1:
					require.NoError(t, a.SetKeyLimit(key, limit))
					require.NoError(t, b.SetKeyLimit(key, limit))
					b.keyLimits.get(key).one = nil
				case 2, 3:
					_ = a.SetKeyLimit(key, Limit{})
					_ = b.SetKeyLimit(key, Limit{})
				case 4, 5, 6, 7:
					time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				case 8:
					time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
				}
				n := r.Int64N(4)
				if set := a.current.Load().main; set.one != nil && changed {
					direct++
				}
				want, err := b.Take(t.Context(), key, n)
				require.NoError(t, err)
				got, err := a.Take(t.Context(), key, n)
				require.NoError(t, err)
				want.Receipt, got.Receipt = limits.Receipt{}, limits.Receipt{}
				require.Equal(t, want, got)
			}
			if seed%3 < 2 {
				require.Positive(t, direct, "some were taken that way after a change")
			}
		})
	}
}
