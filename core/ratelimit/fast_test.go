package ratelimit

import (
	"context"
	"fmt"
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
