package ratelimit

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// sweptLimits are limits of every algorithm under which a key that took 1 permit owes
// nothing after 10 seconds at the most.
func sweptLimits() []Limit {
	return []Limit{
		TokenBucket(10, time.Second, 20), TokenBucket(1_000_003, time.Second, 1_000_003), TokenBucket(1, time.Second, 1), TokenBucket(5, 10*time.Second, 5),
		PerSecond(1), PerSecond(1e9), FixedWindow(3, 5*time.Second), AlignedWindow(3, time.Second), SlidingWindow(5, time.Second, 10), SlidingCounter(5, 5*time.Second), SlidingLog(5, time.Second),
		PerSecond(10).And(TokenBucket(5, time.Second, 5)).And(SlidingLog(5, 2*time.Second)).And(SlidingCounter(9, time.Second)),
	}
}

// What a table holds beside its shards.
type holds struct{ keys, slots, lists, sketches int }

func held0(t *table) (h holds) {
	h.keys = int(t.keys.Load())
	for i := range t.shards {
		s := &t.shards[i]
		h.slots, h.lists = h.slots+len(s.slots), h.lists+cap(s.accounts)+cap(s.free)
		if s.sketch != nil {
			h.sketches++
		}
	}
	return h
}

// flood has keys 0 to n take one permit each.
func flood(t *testing.T, tab *table, id *limits.Plan, now time.Duration, n int) {
	t.Helper()
	for i := range n {
		mustApply(t, tab, now, fmt.Sprint("flood", i), id, limits.Op{Cost: 1})
	}
}

// After a flood little traffic is enough, of whatever kind, for the memory to come back
// within minutes: of the keys that owe nothing none is left.
func TestMemoryComesBackWithinMinutesAfterAFlood(t *testing.T) {
	t.Parallel()
	for _, l := range sweptLimits() {
		for kind, op := range map[string]limits.Op{"take": {Cost: 1}, "peek": {}, "refund": {Kind: limits.Refund, Cost: 1}, "reset": {Kind: limits.Reset}} {
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

// Neither a limiter that only its metrics look at, nor one that is idle for days and then
// is called once, keeps what was taken.
func TestMemoryComesBackThroughAnyCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*Limiter) error{
		"stats":  func(*Limiter) error { return nil },
		"take":   func(l *Limiter) error { _, err := l.Take(context.Background(), "one", 1); return err },
		"wait":   func(l *Limiter) error { _, err := l.Wait(context.Background(), "one", 1); return err },
		"reset":  func(l *Limiter) error { return l.Reset(context.Background(), "one") },
		"denied": func(l *Limiter) error { _, err := l.Take(context.Background(), "one", 50); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pause := range []time.Duration{2 * time.Minute, 3 * 24 * time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					l, err := New(Config{Limit: TokenBucket(10, time.Second, 20)})
					require.NoError(t, err)
					for i := range 2_000 {
						_, err := l.Take(t.Context(), fmt.Sprint(i), 1)
						require.NoError(t, err)
					}
					require.Equal(t, 2_000, l.Stats().Keys)
					time.Sleep(pause)
					require.NoError(t, call(l))
					require.LessOrEqual(t, l.Stats().Keys, 1)
				})
			}
		})
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
func TestASweepAfterAPauseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab, ids := newTestTable(t, 0, PerSecond(5))
		tab.swept = func() { time.Sleep(4 * time.Millisecond) }
		for i := range 1000 {
			mustApply(t, tab, 0, fmt.Sprint(i), ids[0], limits.Op{Cost: 1})
		}
		begun, calls := time.Now(), 0
		for tab.keys.Load() > 1 || tab.turn.Load() < uint64(len(tab.shards)) {
			before := time.Now()
			mustApply(t, tab, time.Hour, "one", ids[0], limits.Op{})
			require.Less(t, time.Since(before), 10*time.Millisecond+8*time.Millisecond, "10 ms and a shard")
			calls++
		}
		require.InDelta(t, 4*time.Millisecond*time.Duration(len(tab.shards)), time.Since(begun), float64(4*time.Millisecond), "each shard was swept once")
		require.Greater(t, calls, 30)
		for range 100 {
			mustApply(t, tab, time.Hour, "one", ids[0], limits.Op{})
		}
		require.InDelta(t, len(tab.shards), tab.turn.Load(), 1)
	})
}

// Keys that still owe are neither dropped nor read wrong when others go, and what they hold
// beside their slots shrinks with the table.
func TestAKeyThatOwesOutlivesTheFlood(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{
		TokenBucket(100, MaxPeriod, 100), FixedWindow(100, 24*time.Hour), FixedWindow(1e9, MaxPeriod), AlignedWindow(100, MaxPeriod), SlidingWindow(100, 24*time.Hour, 10), SlidingCounter(100, 24*time.Hour), SlidingLog(100, 24*time.Hour),
		FixedWindow(100, 24*time.Hour).And(SlidingLog(100, 24*time.Hour)),
	} {
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
						require.Equal(t, limits.Limit(l).Capacity()-30, r.Remaining)
					}
				})
			})
		}
	}
}

// A flood above MaxKeys leaves a sketch of what the dropped keys owed. It goes when all of
// it is repaid, and not before.
func TestTheSketchGoesWhenItsDebtsAreRepaid(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{TokenBucket(1, time.Minute, 5), FixedWindow(5, 5*time.Minute), SlidingWindow(5, 5*time.Minute, 5), SlidingCounter(5, 150*time.Second), SlidingLog(5, 5*time.Minute)} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

func TestQueuesGoWithTheirWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Config{Limit: PerSecond(1)})
		require.NoError(t, err)
		for i := range 1000 {
			go func() {
				for range 2 {
					_, err := l.Wait(t.Context(), fmt.Sprint(i), 1)
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
		synctest.Wait()
		require.True(t, l.lines.Has("1"))
		time.Sleep(2*time.Minute + time.Second)
		l.Stats()
		require.False(t, l.lines.Has("1"))
		require.Equal(t, holds{}, held0(l.memory))
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
	for i := range n {
		mustApply(t, tab, 0, fmt.Sprint(i), ids[0], limits.Op{Cost: 1})
	}
	require.EqualValues(t, n, tab.keys.Load())
	for now := time.Minute; now <= 3*time.Minute; now += time.Second {
		mustApply(t, tab, now, "one", ids[0], limits.Op{Cost: 1})
	}
	require.EqualValues(t, 1, tab.keys.Load())
	require.LessOrEqual(t, slots(tab), 8)
}
