package breaker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// TestTransitionMatrix is every state times every event. Each breaker has seen
// F, S and S while closed, of a window of 4 that opens at a half, before the state
// was set. Open for n seconds at the n-th opening, 2 trials, half-open for at most
// 10 seconds.
func TestTransitionMatrix(t *testing.T) {
	t.Parallel()
	const (
		closed, open, half  = breaker.Closed, breaker.Open, breaker.HalfOpen
		forced, off, metric = breaker.ForcedOpen, breaker.Disabled, breaker.MetricsOnly
	)
	cfg := breaker.Config{Window: 4, Trials: 2, MaxHalfOpen: 10 * second, OpenDelay: backoff.Linear{Delay: second, Jitter: -1}}

	record := func(o core.Outcome) func(*breaker.Breaker, breaker.Permit) {
		return func(b *breaker.Breaker, early breaker.Permit) {
			if p, err := b.Acquire(t.Context()); err == nil {
				p.Done(o)
			} else {
				early.Done(o)
			}
		}
	}
	late := func(b *breaker.Breaker, early breaker.Permit) { early.Done(core.Failure) }
	set := func(s breaker.State) func(*breaker.Breaker, breaker.Permit) {
		return func(b *breaker.Breaker, _ breaker.Permit) { _ = b.SetState(s) }
	}
	after := func(d time.Duration) func(*breaker.Breaker, breaker.Permit) {
		return func(b *breaker.Breaker, _ breaker.Permit) { time.Sleep(d); b.State() }
	}
	events := []struct {
		name string
		do   func(*breaker.Breaker, breaker.Permit)
	}{
		{"success", record(core.Success)},
		{"failure", record(core.Failure)},
		{"ignored", record(core.Ignored)},
		{"late failure", late},
		{"just before a second", after(second - 1)},
		{"after a second", after(second)},
		{"just before ten seconds", after(10*second - 1)},
		{"after ten seconds", after(10 * second)},
		{"to closed", set(closed)},
		{"to open", set(open)},
		{"to half-open", set(half)},
		{"to forced open", set(forced)},
		{"to disabled", set(off)},
		{"to metrics only", set(metric)},
		{"open for a minute", func(b *breaker.Breaker, _ breaker.Permit) { _ = b.OpenFor(time.Minute) }},
		{"reset", func(b *breaker.Breaker, _ breaker.Permit) { b.Reset() }},
		{"trip for an hour", func(b *breaker.Breaker, early breaker.Permit) {
			if p, err := b.Acquire(t.Context()); err == nil {
				p.Trip(time.Hour)
			} else {
				early.Trip(time.Hour)
			}
		}},
		{"another config", func(b *breaker.Breaker, _ breaker.Permit) {
			_ = b.SetConfig(breaker.Config{Window: 2, Trials: 3, SlowCall: second, Initial: breaker.ForcedOpen})
		}},
	}
	type then struct {
		state breaker.State
		calls int // in the window
		told  string
	}
	matrix := map[breaker.State][]then{
		closed: {
			{closed, 4, ""},
			{open, 4, "closed>open n=1 for 1s"},
			{closed, 3, ""},
			{open, 4, "closed>open n=1 for 1s"}, // it is not late
			{closed, 3, ""},
			{closed, 3, ""},
			{closed, 3, ""},
			{closed, 3, ""},
			{closed, 3, ""},
			{open, 3, "closed>open manual n=1 for 1s"},
			{half, 3, "closed>half_open manual n=1"},
			{forced, 3, "closed>forced_open manual"},
			{off, 3, "closed>disabled manual"},
			{metric, 0, "closed>metrics_only manual"},
			{open, 3, "closed>open manual n=1 for 1m0s"},
			{closed, 0, "reset"},
			{open, 4, "closed>open n=1 for 1h0m0s"},
			{closed, 2, ""},
		},
		open: {
			{open, 3, ""},
			{open, 3, ""},
			{open, 3, ""},
			{open, 3, ""},
			{open, 3, ""},
			{half, 3, "open>half_open n=1"},
			{half, 3, "open>half_open n=1"},
			{half, 3, "open>half_open n=1"}, // it begins when it is seen
			{closed, 0, "open>closed manual"},
			{open, 3, ""},
			{half, 3, "open>half_open manual n=1"},
			{forced, 3, "open>forced_open manual"},
			{off, 3, "open>disabled manual"},
			{metric, 0, "open>metrics_only manual"},
			{open, 3, ""},
			{closed, 0, "reset; open>closed manual"},
			{open, 3, ""},
			{open, 2, ""},
		},
		half: {
			{half, 3, ""},
			{open, 3, "half_open>open n=2 for 2s"},
			{half, 3, ""},
			{half, 3, ""},
			{half, 3, ""},
			{half, 3, ""},
			{half, 3, ""},
			{open, 3, "half_open>open n=2 for 2s"},
			{closed, 0, "half_open>closed manual"},
			{open, 3, "half_open>open manual n=2 for 2s"},
			{half, 3, ""},
			{forced, 3, "half_open>forced_open manual"},
			{off, 3, "half_open>disabled manual"},
			{metric, 0, "half_open>metrics_only manual"},
			{open, 3, "half_open>open manual n=2 for 1m0s"},
			{closed, 0, "reset; half_open>closed manual"},
			{open, 3, "half_open>open n=2 for 1h0m0s"},
			{half, 2, ""},
		},
		forced: {
			{forced, 3, ""},
			{forced, 3, ""},
			{forced, 3, ""},
			{forced, 3, ""},
			{forced, 3, ""},
			{forced, 3, ""},
			{forced, 3, ""},
			{forced, 3, ""},
			{closed, 0, "forced_open>closed manual"},
			{open, 3, "forced_open>open manual n=1 for 1s"},
			{half, 3, "forced_open>half_open manual n=1"},
			{forced, 3, ""},
			{off, 3, "forced_open>disabled manual"},
			{metric, 0, "forced_open>metrics_only manual"},
			{open, 3, "forced_open>open manual n=1 for 1m0s"},
			{closed, 0, "reset; forced_open>closed manual"},
			{forced, 3, ""},
			{forced, 2, ""},
		},
		off: {
			{off, 3, ""},
			{off, 3, ""},
			{off, 3, ""},
			{off, 3, ""},
			{off, 3, ""},
			{off, 3, ""},
			{off, 3, ""},
			{off, 3, ""},
			{closed, 0, "disabled>closed manual"},
			{open, 3, "disabled>open manual n=1 for 1s"},
			{half, 3, "disabled>half_open manual n=1"},
			{forced, 3, "disabled>forced_open manual"},
			{off, 3, ""},
			{metric, 0, "disabled>metrics_only manual"},
			{open, 3, "disabled>open manual n=1 for 1m0s"},
			{closed, 0, "reset; disabled>closed manual"},
			{off, 3, ""},
			{off, 2, ""},
		},
		metric: {
			{metric, 1, ""},
			{metric, 1, ""},
			{metric, 0, ""},
			{metric, 0, ""},
			{metric, 0, ""},
			{metric, 0, ""},
			{metric, 0, ""},
			{metric, 0, ""},
			{closed, 0, "metrics_only>closed manual"},
			{open, 0, "metrics_only>open manual n=1 for 1s"},
			{half, 0, "metrics_only>half_open manual n=1"},
			{forced, 0, "metrics_only>forced_open manual"},
			{off, 0, "metrics_only>disabled manual"},
			{metric, 0, ""},
			{open, 0, "metrics_only>open manual n=1 for 1m0s"},
			{closed, 0, "reset; metrics_only>closed manual"},
			{metric, 1, ""},
			{metric, 0, ""},
		},
	}
	require.Len(t, matrix, int(metric)+1)
	for from, row := range matrix {
		require.Len(t, row, len(events))
		for i, event := range events {
			t.Run(fmt.Sprintf("%v %s", from, event.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var j journal
					b := newBreaker(t, with(cfg, func(c *breaker.Config) { c.Registry = j.changes() }))
					early := acquire(t, b)
					run(t, b, "FSS")
					require.NoError(t, b.SetState(from))
					j.take()
					event.do(b, early)
					require.Equal(t, lines(row[i].told), j.take())
					s := b.Snapshot()
					require.Equal(t, row[i].state, s.State)
					require.Equal(t, row[i].calls, s.Calls)
				})
			})
		}
	}
}

// TestTransitionMatrixWithHistory is the rows that differ.
func TestTransitionMatrixWithHistory(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{Window: 4, Trials: 2, JudgeWithHistory: true}
	for _, c := range []struct {
		window, trials string
		want           breaker.State
		calls          int
	}{
		{"SSSS", "FF", breaker.Open, 4},   // SSFF
		{"FSSS", "FS", breaker.Closed, 4}, // SSFS
		{"SSSF", "SS", breaker.Closed, 4}, // SFSS
		{"SFSF", "SF", breaker.Open, 4},   // SFSF
		{"SSSS", "S", breaker.Closed, 4},  // SSSx: one of the four at most
		{"FSFF", "S", breaker.Open, 4},    // FFSx: two successes do not outvote it
		{"SFF", "S", breaker.Open, 4},     // FFSx
		{"FFFS", "F", breaker.Open, 4},    // FSFx
		{"S", "F", breaker.Open, 2},       // too few: by the trials, of which half failed
		{"F", "SS", breaker.Closed, 3},
	} {
		b := newBreaker(t, with(cfg, func(c *breaker.Config) { c.Initial = breaker.MetricsOnly }))
		run(t, b, c.window)
		require.NoError(t, b.SetState(breaker.HalfOpen))
		for _, trial := range c.trials {
			require.Equal(t, breaker.HalfOpen, b.State(), "not certain: %+v", c)
			run(t, b, string(trial))
		}
		s := b.Snapshot()
		require.Equal(t, c.want, s.State, "%+v", c)
		require.Equal(t, c.calls, s.Calls, "%+v", c)
	}
}
