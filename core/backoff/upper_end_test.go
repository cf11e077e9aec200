package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
)

func TestJitterExcludesItsUpperEnd(t *testing.T) {
	t.Parallel()
	most := func() float64 { return math.Nextafter(1, 0) } // the largest number of [0,1)
	broken := func() float64 { return 1 }
	for _, d := range []time.Duration{1, 2, 3, 10, time.Second, time.Hour, math.MaxInt64} {
		exact := backoff.Constant{Wait: d}
		for name, s := range map[string]backoff.Strategy{
			"full":           backoff.FullJitter(exact, most),
			"full, broken":   backoff.FullJitter(exact, broken),
			"equal":          backoff.EqualJitter(exact, most),
			"equal, broken":  backoff.EqualJitter(exact, broken),
			"decorrelated":   backoff.Decorrelated{Base: max(1, d/3), Max: d, Rand: most},
			"at the cap":     backoff.Exponential{Initial: d, Max: d, Jitter: 0.5, Rand: most},
			"at the longest": backoff.Constant{Wait: d, Jitter: 1, Rand: most},
		} {
			got, end, least := s.Delay(1, d), d, time.Duration(0)
			switch name {
			case "equal", "equal, broken":
				least = time.Duration(math.Round(float64(d) / 2))
			case "decorrelated", "at the cap":
				least = min(d, 1)
			case "at the longest":
				end = min(d, math.MaxInt64/2) * 2
			}
			if least == end || least < 0 { // no room
				continue
			}
			require.Less(t, got, end, "%s of %d", name, d)
			require.GreaterOrEqual(t, got, time.Duration(0), "%s of %d", name, d)
		}
	}
}

func TestFullJitterDrawsEveryValueBelowItsUpperEnd(t *testing.T) {
	t.Parallel()
	s := backoff.FullJitter(backoff.Constant{Wait: 3}, backoff.Seeded(1))
	counts := map[time.Duration]int{}
	for range 3000 {
		counts[s.Delay(1, 0)]++
	}
	require.Len(t, counts, 3)
	for d := range time.Duration(3) {
		require.InDelta(t, 1000, counts[d], 150, "%d", d)
	}
}

func TestACapEqualToTheFirstWaitIsAConstantWait(t *testing.T) {
	t.Parallel()
	for _, s := range []backoff.Strategy{
		backoff.Exponential{Initial: time.Second, Max: time.Second},
		backoff.Linear{Initial: time.Second, Max: time.Second},
		backoff.Decorrelated{Base: time.Second, Max: time.Second},
	} {
		require.NoError(t, backoff.Validate(s))
		for n := range 5 {
			require.Equal(t, time.Second, s.Delay(n, time.Second))
		}
	}
}
