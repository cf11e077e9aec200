package backoff_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
)

const ms = time.Millisecond

// delays asks s for the waits before retries 1 to n, each with the one before.
func delays(s backoff.Strategy, n int) []time.Duration {
	all := make([]time.Duration, n)
	prev := time.Duration(0)
	for i := range all {
		prev = s.Delay(i+1, prev)
		all[i] = prev
	}
	return all
}

func TestNoneNeverWaits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{50, 100, 1000} {
		require.Zero(t, backoff.None{}.Delay(n, time.Hour))
	}
}

func TestConstantWithJitterStaysWithinIt(t *testing.T) {
	t.Parallel()
	s := backoff.Constant{Wait: 500 * ms, Jitter: 0.1}
	seen := map[time.Duration]bool{}
	for n := range 1000 {
		d := s.Delay(n%10+1, 0)
		require.GreaterOrEqual(t, d, 450*ms)
		require.LessOrEqual(t, d, 550*ms)
		seen[d] = true
	}
	require.Greater(t, len(seen), 900, "spread")
	require.Equal(t, 500*ms, backoff.Constant{Wait: 500 * ms}.Delay(1, 0), "no jitter: exact")
}

func TestLinear(t *testing.T) {
	t.Parallel()
	require.Equal(t, []time.Duration{100 * ms, 300 * ms, 500 * ms, 700 * ms, 900 * ms},
		delays(backoff.Linear{Initial: 100 * ms, Multiplier: 2}, 5))
}

func TestExponentialUpToItsCap(t *testing.T) {
	t.Parallel()
	s := time.Second
	require.Equal(t, []time.Duration{s / 2, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s, 60 * s},
		delays(backoff.Exponential{Initial: 500 * ms, Multiplier: 2, Max: time.Minute}, 10))
}

func TestJitterComesAfterTheCapAndNeverExceedsIt(t *testing.T) {
	t.Parallel()
	exact := backoff.Exponential{Initial: 500 * ms, Max: time.Minute}
	spread := backoff.Exponential{Initial: 500 * ms, Max: time.Minute, Jitter: 0.25}
	for n := 1; n <= 10; n++ {
		base, seen := exact.Delay(n, 0), map[time.Duration]bool{}
		for range 1000 {
			d := spread.Delay(n, 0)
			require.GreaterOrEqual(t, d, base*3/4)
			require.LessOrEqual(t, d, min(base*5/4, time.Minute))
			seen[d] = true
		}
		require.Greater(t, len(seen), 900, "retry %d is spread, at the cap too", n)
	}
}

func TestFuncMayHoldState(t *testing.T) {
	t.Parallel()
	calls := 0
	s := backoff.Func(func(n int, _ time.Duration) time.Duration { calls++; return time.Duration(n) * 200 * ms })
	for i, d := range delays(s, 10) {
		require.Equal(t, time.Duration(i+1)*200*ms, d)
	}
	require.Equal(t, 10, calls)
}

func TestDelayTable(t *testing.T) {
	t.Parallel()
	half := func() float64 { return 0.5 }
	for _, tt := range []struct {
		name string
		s    backoff.Strategy
		n    int
		prev time.Duration
		want time.Duration
	}{
		{"linear, default multiplier", backoff.Linear{Initial: time.Second}, 4, 0, 4 * time.Second},
		{"linear, fraction has no float dust", backoff.Linear{Initial: 100 * ms, Multiplier: 0.1}, 3, 0, 120 * ms},
		{"linear, fraction is rounded, not cut", backoff.Linear{Initial: 100, Multiplier: 0.15}, 2, 0, 115},
		{"linear, cap", backoff.Linear{Initial: time.Second, Max: 4 * time.Second}, 9, 0, 4 * time.Second},
		{"linear, huge n without a cap", backoff.Linear{Initial: time.Hour}, math.MaxInt, 0, math.MaxInt64},
		{"linear, huge n with a cap", backoff.Linear{Initial: time.Second, Max: time.Hour}, math.MaxInt, 0, time.Hour},
		{"exponential, default multiplier", backoff.Exponential{Initial: time.Second}, 4, 0, 8 * time.Second},
		{"exponential, 1.5", backoff.Exponential{Initial: time.Second, Multiplier: 1.5}, 3, 0, 2250 * ms},
		{"exponential, below a millisecond", backoff.Exponential{Initial: 7, Multiplier: 2}, 3, 0, 28},
		{"exponential, huge n without a cap", backoff.Exponential{Initial: 1}, math.MaxInt, 0, math.MaxInt64},
		{"exponential, huge n with a cap", backoff.Exponential{Initial: 1, Max: time.Minute}, math.MaxInt, 0, time.Minute},
		{"exponential, n 0 counts as 1", backoff.Exponential{Initial: time.Second}, 0, 0, time.Second},
		{"exponential, negative n counts as 1", backoff.Exponential{Initial: time.Second}, math.MinInt, 0, time.Second},
		{"linear, negative n counts as 1", backoff.Linear{Initial: time.Second}, -5, 0, time.Second},
		{"jitter of the longest wait does not overflow", backoff.Constant{Wait: math.MaxInt64, Jitter: 1, Rand: func() float64 { return 1 }}, 1, 0, math.MaxInt64},
		{"jitter of a wait that a float cannot hold", backoff.Constant{Wait: math.MaxInt64 - 1, Jitter: 1, Rand: func() float64 { return 0 }}, 1, 0, 0},
		{"jitter, middle", backoff.Constant{Wait: time.Second, Jitter: 0.2, Rand: half}, 1, 0, time.Second},
		{"jitter, lower end", backoff.Constant{Wait: time.Second, Jitter: 0.2, Rand: func() float64 { return 0 }}, 1, 0, 800 * ms},
		{"jitter below a millisecond", backoff.Constant{Wait: 10, Jitter: 0.5, Rand: half}, 1, 0, 10},
		{"jitter of nothing", backoff.Constant{Jitter: 0.5, Rand: half}, 1, 0, 0},
		{"jitter at the cap, upper end is the cap", backoff.Exponential{Initial: time.Second, Max: 2 * time.Second, Jitter: 0.5, Rand: half}, 5, 0, 1500 * ms},
		{"a source beyond 1 is held at 1", backoff.Constant{Wait: time.Second, Jitter: 0.2, Rand: func() float64 { return 7 }}, 1, 0, 1200 * ms},
		{"a source below 0 is held at 0", backoff.Constant{Wait: time.Second, Jitter: 0.2, Rand: func() float64 { return -7 }}, 1, 0, 800 * ms},
		{"a source of NaN is held at 0", backoff.Constant{Wait: time.Second, Jitter: 0.2, Rand: math.NaN}, 1, 0, 800 * ms},
		{"full jitter", backoff.FullJitter(backoff.Constant{Wait: time.Second}, half), 1, 0, 500 * ms},
		{"equal jitter", backoff.EqualJitter(backoff.Constant{Wait: time.Second}, half), 1, 0, 750 * ms},
		{"full jitter of nil", backoff.FullJitter(nil, half), 1, 0, 0},
		{"decorrelated, first", backoff.Decorrelated{Base: time.Second, Rand: half}, 1, 0, 2 * time.Second},
		{"decorrelated, later", backoff.Decorrelated{Base: time.Second, Rand: half}, 2, 3 * time.Second, 5 * time.Second},
		{"decorrelated, capped before it is drawn", backoff.Decorrelated{Base: time.Second, Max: 5 * time.Second, Rand: half}, 9, time.Hour, 3 * time.Second},
		{"decorrelated, does not overflow", backoff.Decorrelated{Base: 1, Rand: func() float64 { return 1 }}, 9, math.MaxInt64, math.MaxInt64},
		{"func, negative result", backoff.Func(func(int, time.Duration) time.Duration { return -1 }), 1, 0, 0},
		{"func, n below 1", backoff.Func(func(n int, _ time.Duration) time.Duration { return time.Duration(n) }), -3, 0, 1},
		{"invalid constant", backoff.Constant{Wait: -time.Second}, 1, 0, 0},
		{"invalid exponential", backoff.Exponential{Initial: -time.Second, Multiplier: math.NaN()}, 3, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.s.Delay(tt.n, tt.prev))
		})
	}
}

// Kresil's draw over [-0, +0] ms failed for waits below a millisecond.
func TestJitterBelowAMillisecondStaysWithinIt(t *testing.T) {
	t.Parallel()
	for wait := time.Duration(0); wait < 50; wait++ {
		for range 100 {
			d := backoff.Constant{Wait: wait, Jitter: 1}.Delay(1, 0)
			require.GreaterOrEqual(t, d, time.Duration(0))
			require.LessOrEqual(t, d, 2*wait)
		}
	}
}

func TestFullJitterSpreadsAndIsReproducible(t *testing.T) {
	t.Parallel()
	seeded := func() func() float64 { // a small generator of our own, good enough to be reproducible
		state := uint64(42)
		return func() float64 {
			state = state*6364136223846793005 + 1442695040888963407
			return float64(state>>11) / (1 << 53)
		}
	}
	inner := backoff.Exponential{Initial: 100 * ms, Max: 10 * time.Second}
	require.Equal(t, delays(backoff.FullJitter(inner, seeded()), 20), delays(backoff.FullJitter(inner, seeded()), 20))

	random, tenths := seeded(), [10]int{}
	for range 1000 {
		d := backoff.FullJitter(inner, random).Delay(4, 0)
		require.Less(t, d, 800*ms)
		tenths[d/(80*ms)]++
	}
	for i, n := range tenths {
		require.InDelta(t, 100, n, 50, "tenth %d", i)
	}
}

func TestDefaultSourceSpreads(t *testing.T) {
	t.Parallel()
	for _, s := range []backoff.Strategy{
		backoff.FullJitter(backoff.Constant{Wait: time.Second}, nil),
		backoff.EqualJitter(backoff.Constant{Wait: time.Second}, nil),
		backoff.Decorrelated{Base: time.Second},
	} {
		seen := map[time.Duration]bool{}
		for range 100 {
			seen[s.Delay(1, 0)] = true
		}
		require.Greater(t, len(seen), 90)
	}
}

func FuzzDelayIsNeverNegativeNorAboveItsCap(f *testing.F) {
	f.Add(int64(500*ms), 2.0, int64(time.Minute), 0.5, 7, 0.3, int64(time.Second))
	f.Add(int64(1), 1e300, int64(0), 1.0, math.MaxInt, 1.0, int64(math.MaxInt64))
	f.Add(int64(math.MaxInt64), 1.0000001, int64(math.MaxInt64), 0.999, 2, 0.9999999, int64(1))
	f.Fuzz(func(t *testing.T, initial int64, mult float64, maximum int64, jitter float64, n int, r float64, prev int64) {
		random := func() float64 { return r }
		first, limit := time.Duration(initial), time.Duration(maximum)
		for _, s := range []backoff.Strategy{
			backoff.Constant{Wait: first, Jitter: jitter, Rand: random},
			backoff.Linear{Initial: first, Multiplier: mult, Max: limit, Jitter: jitter, Rand: random},
			backoff.Exponential{Initial: first, Multiplier: mult, Max: limit, Jitter: jitter, Rand: random},
			backoff.Decorrelated{Base: first, Max: limit, Rand: random},
			backoff.FullJitter(backoff.Exponential{Initial: first, Multiplier: mult, Max: limit}, random),
			backoff.EqualJitter(backoff.Exponential{Initial: first, Multiplier: mult, Max: limit}, random),
		} {
			d := s.Delay(n, time.Duration(prev))
			require.GreaterOrEqual(t, d, time.Duration(0), "%+v", s)
			if _, uncapped := s.(backoff.Constant); !uncapped && limit > 0 {
				require.LessOrEqual(t, d, limit, "%+v", s)
			}
		}
	})
}

// every is each strategy, with the cap that none of its waits exceeds and whether
// its waits are spread. The waits are drawn with source, nil for the usual one.
func every(source func() float64) map[string]struct {
	s      backoff.Strategy
	limit  time.Duration
	spread bool
} {
	type row = struct {
		s      backoff.Strategy
		limit  time.Duration
		spread bool
	}
	const longest = time.Duration(math.MaxInt64)
	exact := backoff.Exponential{Initial: time.Second, Max: time.Hour}
	return map[string]row{
		"none":                    {backoff.None{}, 0, false},
		"constant":                {backoff.Constant{Wait: time.Minute}, time.Minute, false},
		"constant, jitter":        {backoff.Constant{Wait: time.Minute, Jitter: 0.5, Rand: source}, 90 * time.Second, true},
		"linear":                  {backoff.Linear{Initial: time.Second, Max: time.Hour, Jitter: 0.5, Rand: source}, time.Hour, true},
		"linear, no cap":          {backoff.Linear{Initial: time.Hour, Multiplier: 1000, Jitter: 0.5, Rand: source}, longest, true},
		"exponential":             {backoff.Exponential{Initial: time.Second, Max: time.Hour, Jitter: 0.5, Rand: source}, time.Hour, true},
		"exponential, no cap":     {backoff.Exponential{Initial: time.Second, Jitter: 0.5, Rand: source}, longest, true},
		"exponential, huge":       {backoff.Exponential{Initial: time.Hour, Multiplier: 1e300, Max: 24 * time.Hour, Jitter: 1, Rand: source}, 24 * time.Hour, true},
		"exponential, tiny steps": {backoff.Exponential{Initial: 1, Multiplier: 1.0001, Max: time.Hour}, time.Hour, false},
		"decorrelated":            {backoff.Decorrelated{Base: time.Second, Max: time.Hour, Rand: source}, time.Hour, true},
		"decorrelated, no cap":    {backoff.Decorrelated{Base: time.Second, Rand: source}, longest, true},
		"full jitter":             {backoff.FullJitter(exact, source), time.Hour, true},
		"equal jitter":            {backoff.EqualJitter(exact, source), time.Hour, true},
		"func":                    {backoff.Func(func(n int, _ time.Duration) time.Duration { return time.Duration(n) }), 10_000, false},
	}
}

func TestAttempt10000WithAnyStrategy(t *testing.T) {
	t.Parallel()
	for name, tt := range every(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, backoff.Validate(tt.s))
			ends := map[time.Duration]bool{}
			prev := time.Duration(0)
			for n := 1; n < 10_000; n++ {
				prev = tt.s.Delay(n, prev)
				if prev < 0 || prev > tt.limit {
					t.Fatalf("Delay(%d) = %v, want 0 to %v", n, prev, tt.limit)
				}
			}
			for range 100 {
				d := tt.s.Delay(10_000, prev)
				require.GreaterOrEqual(t, d, time.Duration(0))
				require.LessOrEqual(t, d, tt.limit)
				ends[d] = true
			}
			if tt.spread {
				require.Greater(t, len(ends), 90, "still spread")
			} else {
				require.Len(t, ends, 1, "exact")
			}
		})
	}
}

func TestSeededSourceMakesEveryStrategyReproducible(t *testing.T) {
	t.Parallel()
	for name, tt := range every(backoff.Seeded(7)) {
		again, other := every(backoff.Seeded(7))[name], every(backoff.Seeded(8))[name]
		fresh := every(backoff.Seeded(7))[name]
		first := delays(fresh.s, 50)
		require.Equal(t, first, delays(again.s, 50), name)
		if tt.spread {
			require.NotEqual(t, first, delays(other.s, 50), name)
		}
	}
}

func TestSeededIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	source := backoff.Seeded(1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if r := source(); r < 0 || r >= 1 {
					t.Errorf("source() = %v, want 0 <= r < 1", r)
				}
			}
		})
	}
	wg.Wait()
}

// Polly's decorrelated exponential keeps the sum of the waits so far, ours only the
// last one (AWS's formula): it is within [2s, 3 × the last one], and so above 0
// always, but its medians are others.
func TestDecorrelatedOf2s(t *testing.T) {
	t.Parallel()
	const runs = 20_001
	s := backoff.Decorrelated{Base: 2 * time.Second, Rand: backoff.Seeded(81)}
	all := [4][]time.Duration{}
	for range runs {
		prev := time.Duration(0)
		for i := range all {
			least, most := 2*time.Second, 3*max(prev, 2*time.Second)
			prev = s.Delay(i+1, prev)
			if prev < least || prev > most {
				t.Fatalf("wait %d = %v, want %v to %v", i+1, prev, least, most)
			}
			all[i] = append(all[i], prev)
		}
	}
	for i, want := range []float64{4, 6.4, 9.2, 12.7} { // Polly: 1.8, 2.3, 4.0, 8.0
		slices.Sort(all[i])
		require.InDelta(t, want, all[i][runs/2].Seconds(), 0.3, "median of wait %d", i+1)
	}
}
