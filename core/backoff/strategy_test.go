package backoff_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

func TestNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strategy backoff.Strategy
		want     []time.Duration
	}{
		"constant":                     {backoff.Constant{Delay: s}, []time.Duration{s, s, s}},
		"constant, zero":               {backoff.Constant{}, []time.Duration{0, 0, 0}},
		"linear, zero":                 {backoff.Linear{Jitter: -1}, []time.Duration{500 * ms, s, 1500 * ms}},
		"linear":                       {backoff.Linear{Delay: s, Step: 2 * s, Jitter: -1}, []time.Duration{s, 3 * s, 5 * s}},
		"linear, Max":                  {backoff.Linear{Delay: s, Max: 2500 * ms, Jitter: -1}, []time.Duration{s, 2 * s, 2500 * ms}},
		"exponential, zero":            {backoff.Exponential{Jitter: -1}, []time.Duration{500 * ms, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, time.Minute}},
		"exponential":                  {backoff.Exponential{Delay: s, Factor: 3, Jitter: -1}, []time.Duration{s, 3 * s, 9 * s}},
		"exponential, Factor 1.4":      {backoff.Exponential{Delay: s, Factor: 1.4, Jitter: -1}, []time.Duration{s, 1400 * ms, 1960 * ms}},
		"exponential, Factor 1":        {backoff.Exponential{Delay: s, Factor: 1, Jitter: -1}, []time.Duration{s, s, s}},
		"exponential, Max below Delay": {backoff.Exponential{Delay: s, Max: ms, Jitter: -1}, []time.Duration{ms, ms}},
		"exponential, a Delay of 2m":   {backoff.Exponential{Delay: 2 * time.Minute, Jitter: -1}, []time.Duration{2 * time.Minute, 2 * time.Minute}},
		"function": {
			backoff.Func(func(n int, prev time.Duration) time.Duration { return prev + time.Duration(n)*s }),
			[]time.Duration{s, 3 * s, 6 * s},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prev := time.Duration(0)
			for i, want := range c.want {
				prev = c.strategy.Next(i+1, prev)
				require.Equal(t, want, prev, i+1)
			}
		})
	}
}

func TestNextSaturates(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1, 100, math.MaxInt} {
		for _, limit := range []time.Duration{0, 3 * s, math.MaxInt64} {
			for _, strategy := range []backoff.Strategy{backoff.Linear{Max: limit, Step: time.Hour}, backoff.Exponential{Max: limit, Factor: 1e9}} {
				d := strategy.Next(n, 0)
				require.GreaterOrEqual(t, d, time.Duration(0), "%v %d", strategy, n)
				if limit == 0 {
					limit = time.Minute
				}
				require.LessOrEqual(t, d, limit, "%v %d", strategy, n)
			}
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jitter float64
		least  time.Duration
	}{"default": {0, s / 2}, "none": {-1, s}, "a fifth": {0.2, 800 * ms}, "all": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, strategy := range []backoff.Strategy{backoff.Linear{Delay: s, Max: s, Jitter: c.jitter}, backoff.Exponential{Delay: s, Jitter: c.jitter}} {
				least, most := time.Hour, time.Duration(0)
				for range 2000 {
					d := strategy.Next(1, 0)
					least, most = min(least, d), max(most, d)
				}
				require.GreaterOrEqual(t, least, c.least)
				require.LessOrEqual(t, most, s)
				require.GreaterOrEqual(t, most-least, (s-c.least)*9/10, "all of it is drawn")
			}
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, valid := range []interface{ Validate() error }{backoff.Constant{}, backoff.Linear{}, backoff.Exponential{}, backoff.Exponential{Delay: s, Jitter: -1, Factor: 1}} {
		require.NoError(t, valid.Validate())
	}
	for want, bad := range map[string]interface{ Validate() error }{
		"backoff.Constant.Delay = -1ns: must be >= 0": backoff.Constant{Delay: -1},
		"backoff.Linear.Step = -1ns: must be >= 0 (0 means Delay)\nbackoff.Linear.Max = -1ns: must be >= 0 (0 means 1m0s)": backoff.Linear{Step: -1, Max: -1},
		"backoff.Exponential.Delay = -1ns: must be >= 0 (0 means 500ms)":                                                   backoff.Exponential{Delay: -1},
		"backoff.Exponential.Factor = 0.5: must be >= 1 and finite (0 means 2)":                                            backoff.Exponential{Factor: 0.5},
		"backoff.Exponential.Factor = +Inf: must be >= 1 and finite (0 means 2)":                                           backoff.Exponential{Factor: math.Inf(1)},
		"backoff.Exponential.Factor = NaN: must be >= 1 and finite (0 means 2)":                                            backoff.Exponential{Factor: math.NaN()},
		"backoff.Exponential.Jitter = 1.5: must be <= 1 (0 means 0.5, less means none)":                                    backoff.Exponential{Jitter: 1.5},
	} {
		err := bad.Validate()
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, core.ErrConfig)
		_, ok := errors.AsType[*core.ConfigError](err)
		require.True(t, ok || strings.Contains(want, "\n"))
	}
}
