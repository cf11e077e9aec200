package ratelimit

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// windowSizes are fixed windows from the finest tick of a start to the coarsest.
func windowSizes(aligned bool) (all []Limit) {
	for _, permits := range []int64{1, 63, 64, 1000, 1 << 20, 1e9, MaxPermits} {
		for _, period := range []time.Duration{1, 2, 997, time.Millisecond, time.Second, 1234567891, time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, MaxPeriod} {
			all = append(all, of(limits.Spec{Permits: permits, Period: period, Aligned: aligned}))
		}
	}
	return all
}

// An aligned window ends with the clock to the nanosecond, however coarse the ticks are
// in which a key keeps its start.
func TestAnAlignedWindowEndsWithTheClockWhateverItsSize(t *testing.T) {
	t.Parallel()
	for _, l := range windowSizes(true) {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(spec(l).Permits), uint64(spec(l).Period)))
				for range 5 {
					time.Sleep(time.Duration(rng.Int64N(int64(48 * time.Hour))))
					epoch := time.Now().UnixNano()
					tab, ids := newTestTable(t, 0, l)
					now := rng.Int64N(1 << 45)
					left := spec(l).Period - time.Duration((epoch+now)%int64(spec(l).Period))
					r := mustApply(t, tab, time.Duration(now), "k", ids[0], limits.Op{Cost: spec(l).Permits})
					require.Equal(t, left, r.FullAfter)
					for _, before := range []time.Duration{(left + 1) / 2, 1} {
						r = mustApply(t, tab, time.Duration(now)+left-before, "k", ids[0], limits.Op{Cost: 1})
						require.False(t, r.Allowed)
						require.Equal(t, before, r.RetryAfter)
					}
					for range 2 { // also a whole number of periods later
						now += int64(left)
						r = mustApply(t, tab, time.Duration(now), "k", ids[0], limits.Op{})
						require.Equal(t, [3]any{spec(l).Permits, time.Duration(0), time.Duration(0)}, [3]any{r.Remaining, r.NextAfter, r.FullAfter})
						r = mustApply(t, tab, time.Duration(now), "k", ids[0], limits.Op{Cost: spec(l).Permits})
						require.True(t, r.Allowed, "at the end of the window")
						require.Equal(t, spec(l).Period, r.FullAfter)
						left = spec(l).Period
					}
				}
			})
		})
	}
}

// A window that is not aligned ends when its RetryAfter said, and not before.
func TestAWindowEndsWhenItsRetryAfterSaidWhateverItsSize(t *testing.T) {
	t.Parallel()
	for _, l := range windowSizes(false) {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(spec(l).Permits), uint64(spec(l).Period)))
			tab, ids := newTestTable(t, 0, l)
			tick := time.Duration(1) << wordTick(l)
			now := time.Duration(rng.Int64N(1 << 45))
			for range 20 {
				r := mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: spec(l).Permits})
				require.True(t, r.Allowed)
				end := now + r.FullAfter
				require.Greater(t, r.FullAfter, spec(l).Period-tick)
				require.Less(t, r.FullAfter, spec(l).Period+tick)
				for _, at := range []time.Duration{now + time.Duration(rng.Int64N(int64(r.FullAfter))), end - 1} {
					r = mustApply(t, tab, at, "k", ids[0], limits.Op{Cost: 1})
					require.False(t, r.Allowed)
					require.Equal(t, end, at+r.RetryAfter)
				}
				now = end
			}
		})
	}
}

// The oracle of an aligned window knows no ticks: windows of many permits have to agree
// with it as those of few do.
func TestOracleOfAlignedWindowsOfManyPermits(t *testing.T) {
	t.Parallel()
	checkAlignedWindows(t, 80)
}

func checkAlignedWindows(t *testing.T, windows int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 13))
		limits := windowSizes(true)
		for range windows {
			time.Sleep(time.Duration(rng.Int64N(int64(time.Hour))))
			agree(t, rng, limits[rng.IntN(len(limits))], 60)
		}
	})
}
