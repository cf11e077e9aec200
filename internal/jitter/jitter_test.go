package jitter_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/jitter"
)

func TestAbove(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		strategy backoff.Strategy
		n        int
		from, to time.Duration // of the wait above a floor of 100 s
	}{
		"constant":               {backoff.Constant{Delay: 4 * s}, 1, 0, 0},
		"zero":                   {backoff.Constant{}, 1, 0, 0},
		"linear":                 {backoff.Linear{Delay: s, Jitter: 1}, 3, 0, 3 * s},
		"exponential":            {backoff.Exponential{Delay: s}, 3, 0, 2 * s},
		"exponential, no jitter": {backoff.Exponential{Delay: s, Jitter: -1}, 3, 0, 0},
		"exponential, at Max":    {backoff.Exponential{Delay: s, Max: 3 * s}, 3, 0, 1500 * time.Millisecond},
		"function of the user's": {backoff.Func(func(int, time.Duration) time.Duration { return 4 * s }), 1, 0, 4 * s},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			least, most := time.Duration(math.MaxInt64), time.Duration(0)
			for range 2000 {
				drawn := c.strategy.Next(c.n, 0)
				require.Equal(t, drawn, jitter.Above(drawn, c.strategy, c.n, 0, drawn))
				above := jitter.Above(100*s, c.strategy, c.n, 0, drawn) - 100*s
				least, most = min(least, above), max(most, above)
			}
			require.GreaterOrEqual(t, least, c.from)
			require.LessOrEqual(t, most, c.to)
			require.GreaterOrEqual(t, most-least, (c.to-c.from)*9/10, "all of the jitter")
		})
	}
	require.Equal(t, time.Duration(math.MaxInt64), jitter.Above(math.MaxInt64, nil, 1, 0, s))
	require.Equal(t, 5*s, jitter.Above(5*s, nil, 1, 0, 0))
}

func TestTold(t *testing.T) {
	t.Parallel()
	for wait, most := range map[time.Duration]time.Duration{
		0: 0, time.Second: 100 * time.Millisecond, time.Hour: time.Minute, math.MaxInt64: 0, math.MaxInt64 - 1: 1,
	} {
		least, longest := time.Duration(math.MaxInt64), time.Duration(0)
		for range 2000 {
			above := jitter.Told(wait) - wait
			least, longest = min(least, above), max(longest, above)
		}
		require.GreaterOrEqual(t, least, time.Duration(0), wait)
		require.LessOrEqual(t, longest, most, wait)
		require.GreaterOrEqual(t, longest-least, most*9/10, wait)
	}
}
