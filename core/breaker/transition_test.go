package breaker_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// Each row is a history of calls, see run, and the changes that it makes.
func TestTransitions(t *testing.T) {
	t.Parallel()
	const five = "closed > open: 5 failures in a row, for 1m0s"
	const trial = "open > half_open: open for 1m0s"
	rate := breaker.Config{Failures: -1}
	small := breaker.Config{Failures: -1, Window: 4}
	slow := breaker.Config{SlowCall: time.Second, Window: 4}
	aging := breaker.Config{Failures: -1, WindowTime: 10 * time.Second, MinCalls: 2}
	one := breaker.Config{Failures: 1, Trials: 1}
	for name, c := range map[string]struct {
		cfg   breaker.Config
		calls string
		want  []string
		end   breaker.State
	}{
		"five failures in a row open":       {breaker.Config{}, "FFFFF R", []string{five}, breaker.Open},
		"four do not":                       {breaker.Config{}, "SFFFF SFFFF", nil, breaker.Closed},
		"a success in between":              {breaker.Config{}, "FFFFS FFFFS", nil, breaker.Closed},
		"an ignored call in between":        {breaker.Config{}, "FFII FFIF R", []string{five}, breaker.Open},
		"they may be hours apart":           {breaker.Config{WindowTime: time.Second}, "F-F-F-F-F R", []string{five}, breaker.Open},
		"half of twenty calls":              {breaker.Config{}, x(9, "SF") + "SF R", []string{"closed > open: 10 of 20 calls failed, for 1m0s"}, breaker.Open},
		"half of nineteen":                  {breaker.Config{}, x(9, "SF") + "S", nil, breaker.Closed},
		"less than half":                    {breaker.Config{}, x(100, "SSF"), nil, breaker.Closed},
		"a success opens too":               {breaker.Config{FailureRate: 0.6, MinCalls: 5, Failures: -1}, "FFFS S R", []string{"closed > open: 3 of 5 calls failed, for 1m0s"}, breaker.Open},
		"a rate of all":                     {breaker.Config{FailureRate: 1, Failures: -1}, x(19, "F") + "S" + x(79, "F"), nil, breaker.Closed},
		"no rate":                           {breaker.Config{FailureRate: -1}, x(50, "SF"), nil, breaker.Closed},
		"neither":                           {breaker.Config{FailureRate: -1, Failures: -1}, x(200, "F"), nil, breaker.Closed},
		"only the last calls count":         {rate, x(100, "S") + x(49, "F"), nil, breaker.Closed},
		"one more of them":                  {rate, x(100, "S") + x(50, "F"), []string{"closed > open: 50 of 100 calls failed, for 1m0s"}, breaker.Open},
		"old failures leave the window":     {small, "FSSS SFSS SFSS", nil, breaker.Closed},
		"a window less than MinCalls":       {small, "SFSF R", []string{"closed > open: 2 of 4 calls failed, for 1m0s"}, breaker.Open},
		"slow calls":                        {slow, "ssss R", []string{"closed > open: 4 of 4 calls were slow, for 1m0s"}, breaker.Open},
		"as long as SlowCall":               {breaker.Config{SlowCall: 2 * time.Second, Window: 4}, "ssss", nil, breaker.Closed},
		"a quick one among them":            {slow, "sssS sssS", nil, breaker.Closed},
		"a time window":                     {aging, "F S R", []string{"closed > open: 1 of 2 calls failed, for 1m0s"}, breaker.Open},
		"a success opens there too":         {breaker.Config{Failures: -1, FailureRate: 0.05, WindowTime: time.Minute, MinCalls: 20}, "F" + x(19, "S") + " R", []string{"closed > open: 1 of 20 calls failed, for 1m0s"}, breaker.Open},
		"and ends a row":                    {breaker.Config{Failures: 3, FailureRate: 0.9, WindowTime: time.Minute, MinCalls: 1}, x(20, "S") + "FFSFFSFF", nil, breaker.Closed},
		"when older ones expire":            {aging, x(20, "S") + "....." + x(17, "F") + x(16, "S") + ".....S R", []string{"closed > open: 17 of 34 calls failed, for 1m0s"}, breaker.Open},
		"its calls expire by tenths":        {aging, "F .......... S", nil, breaker.Closed},
		"they are there before":             {aging, "F ........ S R", []string{"closed > open: 1 of 2 calls failed, for 1m0s"}, breaker.Open},
		"three of five trials close":        {breaker.Config{}, "FFFFF-SSS", []string{five, trial, "half_open > closed: 3 of 5 trials succeeded"}, breaker.Closed},
		"three of five trials fail":         {breaker.Config{}, "FFFFF-SSFFF R", []string{five, trial, "half_open > open: 3 of 5 trials failed, for 1m0s"}, breaker.Open},
		"two may fail":                      {breaker.Config{}, "FFFFF-FSFSS", []string{five, trial, "half_open > closed: 3 of 5 trials succeeded"}, breaker.Closed},
		"an ignored trial is another":       {one, "F-IIIS", []string{"closed > open: 1 failures in a row, for 1m0s", trial, "half_open > closed: 1 of 1 trials succeeded"}, breaker.Closed},
		"slow trials open":                  {slow, "ssss-sssss", []string{"closed > open: 4 of 4 calls were slow, for 1m0s", trial, "half_open > open: 5 of 5 trials were slow, for 1m0s"}, breaker.Open},
		"the window is empty after a close": {rate, x(20, "F") + "-SSS" + x(19, "F"), []string{"closed > open: 20 of 20 calls failed, for 1m0s", trial, "half_open > closed: 3 of 5 trials succeeded"}, breaker.Closed},
		"by hand":                           {one, "O R - S X R - R D F M FFF C", []string{"closed > open: set by hand, for 1m0s", trial, "half_open > closed: 1 of 1 trials succeeded", "closed > forced_open: set by hand", "forced_open > disabled: set by hand", "disabled > metrics_only: set by hand", "metrics_only > closed: set by hand"}, breaker.Closed},
		"to half-open by hand":              {one, "H F R", []string{"closed > half_open: set by hand", "half_open > open: 1 of 1 trials failed, for 1m0s"}, breaker.Open},
		"closed by hand is empty":           {breaker.Config{}, "FFFF C FFFF", nil, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var j journal
				c.cfg.OpenDelay, c.cfg.OnStateChange = minute(), j.changed
				b := newBreaker(t, c.cfg)
				run(t, b, c.calls)
				require.Equal(t, c.want, j.take())
				require.Equal(t, c.end, b.State())
			})
		})
	}
}

// A quiet service has few calls, and reads of the state in between must not open its breaker again.
func TestHalfOpenWaitsForTrials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		max  time.Duration
		lost bool
		want breaker.State
	}{
		"without a trial":     {0, false, breaker.HalfOpen},
		"for a lost one":      {0, true, breaker.Open},
		"for a lost one, -1":  {-1, true, breaker.HalfOpen},
		"not for a lost one":  {30 * time.Minute, true, breaker.HalfOpen},
		"half an hour for it": {29 * time.Minute, true, breaker.Open},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{MaxHalfOpen: c.max, OpenDelay: backoff.Constant{Delay: time.Hour}})
			run(t, b, "FFFFF")
			time.Sleep(time.Hour)
			run(t, b, "S")
			if c.lost {
				acquire(t, b)
			}
			time.Sleep(29 * time.Minute)
			require.Equal(t, c.want, b.State(), name)
			require.Equal(t, c.want, b.Stats().State, name)
		})
	}
}

func TestOpenDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked [][2]any
		d := backoff.Func(func(n int, prev time.Duration) time.Duration {
			asked = append(asked, [2]any{n, prev})
			return time.Duration(n) * time.Minute
		})
		b := newBreaker(t, breaker.Config{Failures: 1, Trials: 1, OpenDelay: d, MaxRetryAfter: time.Hour})
		run(t, b, "F-F R-R-F R---S F-")
		require.Equal(t, [][2]any{{1, time.Duration(0)}, {2, time.Minute}, {3, 2 * time.Minute}, {1, time.Duration(0)}}, asked)
		trial := acquire(t, b)
		trial.Failed(10 * time.Minute)
		require.Len(t, asked, 5)
		left := rejection(t, b).RetryAfter()
		require.True(t, left > 10*time.Minute && left < 12*time.Minute, "%v has no jitter", left)
		run(t, b, "XO")
		require.Equal(t, [2]any{1, time.Duration(0)}, asked[5], "forced open, it begins anew")
		b = newBreaker(t, breaker.Config{Failures: 1, Trials: 1, OpenDelay: backoff.Constant{}})
		run(t, b, "F")
		acquire(t, b)
		require.Zero(t, rejection(t, b).RetryAfter(), "half-open after an OpenDelay of 0")
		for most, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Second: time.Minute} {
			b = newBreaker(t, breaker.Config{Failures: 1, OpenDelay: d, MaxRetryAfter: most})
			failed := acquire(t, b)
			failed.Failed(2 * time.Hour)
			require.Equal(t, want, rejection(t, b).RetryAfter(), "MaxRetryAfter does not bound OpenDelay, but the jitter on top of it")
		}
	})
}

func TestDefaultOpenDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		for n := range 7 {
			require.NoError(t, b.SetState(breaker.Open))
			most := min(30*time.Second<<n, 10*time.Minute)
			left := rejection(t, b).RetryAfter()
			require.True(t, left >= most*4/5 && left <= min(most*6/5, 10*time.Minute), "%v of %v", left, most)
			time.Sleep(left)
			require.Equal(t, breaker.HalfOpen, b.State())
		}
	})
}

func TestOpenFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{OnStateChange: j.changed})
		require.NoError(t, b.OpenFor(time.Hour))
		time.Sleep(time.Hour / 2)
		require.NoError(t, b.SetState(breaker.Open), "it is open")
		require.NoError(t, b.OpenFor(time.Minute))
		run(t, b, "R-")
		require.Equal(t, breaker.HalfOpen, b.State())
		require.Equal(t, []string{
			"closed > open: set by hand, for 1h0m0s", "open > open: set by hand, for 1m0s", "open > half_open: open for 1m0s",
		}, j.take())
		require.EqualValues(t, 2, b.Stats().Opened)
		for _, d := range []time.Duration{0, -1} {
			require.ErrorIs(t, b.OpenFor(d), core.ErrConfig)
		}
		require.NoError(t, b.OpenFor(math.MaxInt64))
		run(t, b, "R------R")
		require.Greater(t, rejection(t, b).RetryAfter(), 200*365*24*time.Hour)
		require.ErrorIs(t, b.SetState(9), core.ErrConfig)
	})
}

// Whoever calls OpenDelay when it panics, the breaker is open for half a minute, and can be used.
func TestOpenDelayPanics(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *breaker.Breaker){
		"a failure": func(t *testing.T, b *breaker.Breaker) { t.Helper(); run(t, b, "F") },
		"trials":    func(t *testing.T, b *breaker.Breaker) { t.Helper(); run(t, b, "HFFF") },
		"a lost trial": func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			run(t, b, "H")
			acquire(t, b)
			run(t, b, "-")
			b.State()
		},
		"by hand": func(_ *testing.T, b *breaker.Breaker) { _ = b.SetState(breaker.Open) },
		"the stats": func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			run(t, b, "H")
			acquire(t, b)
			run(t, b, "-")
			b.Stats()
		},
		"Do": func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, errDown })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, err := breaker.NewGroup(breaker.Config{Failures: 1, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration { panic("mine") })})
			require.NoError(t, err)
			b := g.For("k")
			require.PanicsWithValue(t, "mine", func() { open(t, b) }, name)
			run(t, b, "R")
			require.Equal(t, breaker.Open, g.Stats().State, name)
			time.Sleep(30 * time.Second)
			run(t, b, "SSS")
			require.Equal(t, breaker.Closed, b.State(), name)
		})
	}
	require.PanicsWithValue(t, "mine", func() {
		_, _ = breaker.New(breaker.Config{Initial: breaker.Open, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration { panic("mine") })})
	})
}
