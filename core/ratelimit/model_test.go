package ratelimit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestTable is a table with a store of its own and one plan.
func newTestTable(tb testing.TB, maxKeys int, limits ...Limit) (*table, []PlanID) {
	tb.Helper()
	m, err := NewMemory(MemoryConfig{MaxKeys: maxKeys})
	require.NoError(tb, err)
	opened, err := m.Open("test")
	require.NoError(tb, err)
	tab := opened.(*table)
	ids := make([]PlanID, len(limits))
	for i, l := range limits {
		require.NoError(tb, l.Validate(), "%v", l)
		ids[i], err = tab.Plan(l)
		require.NoError(tb, err)
	}
	return tab, ids
}

// mustApply applies at a time.
func mustApply(tb testing.TB, tab *table, now time.Duration, key string, id PlanID, op Op) Result {
	tb.Helper()
	r, err := tab.applyAt(int64(now), key, id, op)
	require.NoError(tb, err)
	return r
}

// ratBucket is a token bucket in rational numbers, as the textbook has it: a
// level that grows with time. It shares nothing with the code under test.
type ratBucket struct {
	permits, burst int64
	period         int64
	level          *big.Rat
	at             int64
}

func (b *ratBucket) advance(now int64) {
	gain := big.NewRat(now-b.at, b.period)
	gain.Mul(gain, big.NewRat(b.permits, 1))
	b.level.Add(b.level, gain)
	if full := big.NewRat(b.burst, 1); b.level.Cmp(full) > 0 {
		b.level = full
	}
	b.at = now
}

// until is the time, in whole ns rounded up, at which the level will be n.
func (b *ratBucket) until(n int64) int64 {
	short := new(big.Rat).Sub(big.NewRat(n, 1), b.level)
	if short.Sign() <= 0 {
		return 0
	}
	short.Mul(short, big.NewRat(b.period, b.permits))
	q, m := new(big.Int).DivMod(short.Num(), short.Denom(), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

func (b *ratBucket) whole() int64 { return new(big.Int).Div(b.level.Num(), b.level.Denom()).Int64() }

func TestBucketAgreesWithARationalModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * time.Second, 1234567891, time.Millisecond, 997}
	for range 400 {
		l := Bucket(1+rng.Int64N(1<<rng.IntN(20)), periods[rng.IntN(len(periods))], 1+rng.Int64N(1<<rng.IntN(12)))
		if s, ok := newScale(l); !ok || s.tick != 1 {
			continue // coarser than 1ns: see TestBucketTicks
		}
		tab, ids := newTestTable(t, 0, l)
		model := &ratBucket{permits: l.Permits, burst: l.Burst, period: int64(l.Period), level: big.NewRat(l.Burst, 1)}
		now := rng.Int64N(1 << 40)
		quoted := int64(0)
		for range 100 {
			switch rng.IntN(4) {
			case 0: // at the quoted time, or 1ns before
				now += max(0, quoted-rng.Int64N(2))
			case 1:
				now += rng.Int64N(int64(l.Period)/l.Permits + 2)
			case 2:
				now += rng.Int64N(int64(l.Period) + 1)
			}
			cost := rng.Int64N(l.Burst + 2)
			model.advance(now)
			want := Result{Plan: ids[0], Limit: l.Burst, Allowed: true}
			switch {
			case cost > l.Burst:
				want.Allowed, want.RetryAfter = false, Never
			case model.level.Cmp(big.NewRat(cost, 1)) < 0:
				want.Allowed, want.RetryAfter = false, time.Duration(model.until(cost))
			default:
				model.level.Sub(model.level, big.NewRat(cost, 1))
				want.Granted = cost
			}
			want.Remaining = model.whole()
			if want.Remaining < l.Burst {
				want.NextAfter = time.Duration(model.until(want.Remaining + 1))
			}
			want.FullAfter = time.Duration(model.until(l.Burst))
			got := mustApply(t, tab, time.Duration(now), "k", ids[0], Op{Cost: cost})
			got.Receipt = Receipt{}
			require.Equal(t, want, got, "%v: take %d at %d", l, cost, now)
			quoted = int64(want.RetryAfter)
		}
	}
}

func TestBucketTicks(t *testing.T) {
	t.Parallel()
	l := Bucket(1_000_003, 24*time.Hour, 1_000_003) // too fine for 1ns: counts in 100ns
	require.NoError(t, l.Validate())
	s, ok := newScale(l)
	require.True(t, ok)
	require.Greater(t, s.tick, int64(1))
	tab, ids := newTestTable(t, 0, l)
	require.EqualValues(t, 0, mustApply(t, tab, 5, "k", ids[0], Op{Cost: l.Burst}).Remaining)
	r := mustApply(t, tab, 5, "k", ids[0], Op{Cost: 7})
	require.False(t, r.Allowed)
	require.False(t, mustApply(t, tab, 5+r.RetryAfter-1, "k", ids[0], Op{Cost: 7}).Allowed)
	require.True(t, mustApply(t, tab, 5+r.RetryAfter, "k", ids[0], Op{Cost: 7}).Allowed)
	require.EqualValues(t, l.Burst, mustApply(t, tab, 24*time.Hour+5+r.RetryAfter+1000, "k", ids[0], Op{}).Remaining, "a day repays all")
}

// plainWindow is a fixed window as one would write it down.
type plainWindow struct {
	permits int64
	period  int64
	start   int64
	used    int64
}

func TestWindowAgreesWithAPlainModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	periods := []time.Duration{time.Second, time.Minute, 10 * time.Minute, 7 * time.Second, time.Millisecond, 997, 1}
	for range 400 {
		l := Window(1+rng.Int64N(1<<rng.IntN(10)), periods[rng.IntN(len(periods))])
		if newLayout(l).shift != 0 {
			continue // coarser than 1ns: see TestWindowOfManyPermits
		}
		tab, ids := newTestTable(t, 0, l)
		m := plainWindow{permits: l.Permits, period: int64(l.Period)}
		now := rng.Int64N(1 << 50)
		quoted := int64(0)
		for range 100 {
			switch rng.IntN(4) {
			case 0:
				now += max(0, quoted-rng.Int64N(2))
			case 1:
				now += rng.Int64N(m.period/4 + 1)
			case 2:
				now += rng.Int64N(3*m.period + 1)
			}
			if m.used == 0 || now-m.start >= m.period {
				m.start, m.used = now, 0
			}
			cost := rng.Int64N(l.Permits + 2)
			want := Result{Plan: ids[0], Limit: l.Permits, Allowed: true}
			left := time.Duration(m.start + m.period - now)
			switch {
			case cost > l.Permits:
				want.Allowed, want.RetryAfter = false, Never
			case m.used+cost > l.Permits && cost > 0:
				want.Allowed, want.RetryAfter = false, left
			default:
				m.used += cost
				want.Granted = cost
			}
			want.Remaining = l.Permits - m.used
			if m.used > 0 {
				want.NextAfter, want.FullAfter = left, left
			}
			got := mustApply(t, tab, time.Duration(now), "k", ids[0], Op{Cost: cost})
			got.Receipt = Receipt{}
			require.Equal(t, want, got, "%v: take %d at %d", l, cost, now)
			quoted = int64(want.RetryAfter)
		}
	}
}

func TestWindowOfManyPermits(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{
		Window(MaxPermits, MaxPeriod), Window(MaxPermits, 1), Window(1, MaxPeriod), Window(1e9, time.Minute), Window(1000, 24*time.Hour), Window(63, 3*time.Hour),
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			tab, ids := newTestTable(t, 0, l)
			const start = 1_234_567_891_234
			require.EqualValues(t, 0, mustApply(t, tab, start, "k", ids[0], Op{Cost: l.Permits}).Remaining)
			r := mustApply(t, tab, start+l.Period/2, "k", ids[0], Op{Cost: 1})
			require.False(t, r.Allowed)
			tick := time.Duration(1) << newLayout(l).shift
			require.Less(t, tick, max(2, l.Period/256), "the start is rounded by little")
			end := start + l.Period/2 + r.RetryAfter
			require.LessOrEqual(t, end, start+l.Period, "nobody waits for longer than a period")
			require.Greater(t, end, start+l.Period-tick)
			if l.Period > 1 {
				require.False(t, mustApply(t, tab, end-1, "k", ids[0], Op{Cost: 1}).Allowed)
			}
			full := mustApply(t, tab, end, "k", ids[0], Op{Cost: l.Permits})
			require.True(t, full.Allowed)
			require.GreaterOrEqual(t, full.FullAfter, l.Period, "no window begins before the last is over")
			require.Less(t, full.FullAfter, l.Period+tick)
		})
	}
}

func TestNoKeyIsReadWrongAfterAnyTimeAway(t *testing.T) {
	t.Parallel()
	limits := []Limit{
		PerMinute(5), PerSecond(3), Window(1000, 24*time.Hour), Bucket(3, time.Second, 3), Bucket(999_999_937, time.Second, 999_999_937), Bucket(299, time.Hour, 299),
		Bucket(1_000_003, 24*time.Hour, 9), Window(1, MaxPeriod), Bucket(1, MaxPeriod, 1), Window(MaxPermits, time.Second),
	}
	for _, l := range limits {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			for away := time.Duration(1); away > 0 && away < 200*365*24*time.Hour; away *= 3 {
				tab, ids := newTestTable(t, 0, l)
				took := mustApply(t, tab, 1000, "k", ids[0], Op{Cost: l.Capacity()})
				require.Zero(t, took.Remaining)
				r := mustApply(t, tab, 1000+away, "k", ids[0], Op{})
				if away >= took.FullAfter {
					require.Equal(t, l.Capacity(), r.Remaining, "after %v", away)
					require.Zero(t, r.FullAfter)
				} else {
					require.Less(t, r.Remaining, l.Capacity(), "after %v", away)
					require.LessOrEqual(t, r.FullAfter, took.FullAfter)
				}
			}
		})
	}
}

func TestNoDriftAtThreePerSecondOverADay(t *testing.T) {
	t.Parallel()
	tab, ids := newTestTable(t, 0, Bucket(3, time.Second, 1))
	granted, now := 0, time.Duration(0)
	for now < 24*time.Hour {
		r := mustApply(t, tab, now, "k", ids[0], Op{Cost: 1})
		if r.Allowed {
			granted++
			r = mustApply(t, tab, now, "k", ids[0], Op{Cost: 1})
			require.False(t, r.Allowed)
		}
		now += r.RetryAfter
	}
	require.Equal(t, 3*24*3600, granted)
}

func TestTimeGoingBackMintsNothing(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{PerSecond(10), Bucket(10, time.Second, 10)} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			tab, ids := newTestTable(t, 0, l)
			require.True(t, mustApply(t, tab, 5*time.Second, "k", ids[0], Op{Cost: 10}).Allowed)
			for _, now := range []time.Duration{0, 3 * time.Second, 4999 * time.Millisecond} {
				r := mustApply(t, tab, now, "k", ids[0], Op{Cost: 1})
				require.False(t, r.Allowed)
				require.LessOrEqual(t, r.RetryAfter, time.Second)
			}
			require.True(t, mustApply(t, tab, 6*time.Second, "k", ids[0], Op{Cost: 10}).Allowed)
		})
	}
}

func TestRateLimiting7_EveryRateLeavesExactlyNMinusK(t *testing.T) {
	t.Parallel()
	for n := int64(1); n <= 300; n++ {
		tab, ids := newTestTable(t, 0, Bucket(n, time.Hour, n), PerHour(n))
		for k := int64(1); k <= n; k++ {
			for _, id := range ids {
				r := mustApply(t, tab, 12345, fmt.Sprint("k", id), id, Op{Cost: 1})
				require.True(t, r.Allowed)
				require.Equal(t, n-k, r.Remaining)
			}
		}
		for _, id := range ids {
			require.False(t, mustApply(t, tab, 12345, fmt.Sprint("k", id), id, Op{Cost: 1}).Allowed)
		}
	}
}
