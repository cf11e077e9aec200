package breaker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

// last makes one call that lasts as long, and ends as its letter says.
func last(t *testing.T, b *breaker.Breaker, outcome rune, d time.Duration) {
	t.Helper()
	p := acquire(t, b)
	time.Sleep(d)
	p.Done(outcomeOf(outcome))
}

func TestSlowCallsOpenTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told registry.Event
		b := newBreaker(t, breaker.Config{
			SlowCall: 4 * second, SlowRate: 0.5, Window: 10, MinCalls: 5,
			Registry: listened(changedText, func(e registry.Event) { told = e }),
		})
		last(t, b, 'F', 5*second)
		last(t, b, 'S', 5*second)
		last(t, b, 'F', second/10)
		last(t, b, 'S', second/10)
		s := b.Snapshot()
		require.Equal(t, breaker.Closed, s.State)
		require.False(t, s.RatesKnown)
		require.Zero(t, s.SlowRate)
		last(t, b, 'S', 5*second)
		s = b.Snapshot()
		require.Equal(t, breaker.Open, s.State)
		require.Equal(t, []int{5, 2, 3, 1}, []int{s.Calls, s.Failures, s.Slow, s.SlowFailures})
		require.True(t, s.RatesKnown)
		require.InDelta(t, 0.6, s.SlowRate, 0)
		require.InDelta(t, 0.4, s.FailureRate, 0)
		require.InDelta(t, 0.5, s.SlowThreshold, 0)
		require.InDelta(t, 0.6, told.Attr("slow_rate").Float64(), 0)
		require.InDelta(t, 0.4, told.Attr("failure_rate").Float64(), 0)
		require.Equal(t, breaker.Stats{Successes: 3, Failures: 2, SlowSuccesses: 2, SlowFailures: 1, Opened: 1}, b.Stats())
	})
}

func TestSlowTrialsOpenItAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told registry.Event
		b := newBreaker(t, breaker.Config{
			SlowCall: 4 * second, SlowRate: 0.75, Trials: 4, Initial: breaker.HalfOpen,
			Registry: listened(changedText, func(e registry.Event) { told = e }),
		})
		last(t, b, 'S', 5*second)
		last(t, b, 'S', 5*second)
		last(t, b, 'S', second)
		require.InDelta(t, 2.0/3, b.Snapshot().SlowRate, 0)
		require.Equal(t, breaker.HalfOpen, b.State(), "the last one decides")
		last(t, b, 'S', 5*second)
		require.Equal(t, breaker.Open, b.State())
		require.Zero(t, told.Attr("failure_rate").Float64())
		require.InDelta(t, 0.75, told.Attr("slow_rate").Float64(), 0)
	})
}

func TestSlowTrialsDecideAsSoonAsItIsCertain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, last string // s: a slow success; f: a slow failure
		want         breaker.State
	}{
		{"s", "s", breaker.Open},
		{"sF", "s", breaker.Open},
		{"F", "F", breaker.Open},
		{"sFS", "S", breaker.Closed}, // one of each kind is no half of either
		{"SS", "S", breaker.Closed},
		{"f", "s", breaker.Open},
		{"f", "F", breaker.Open},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{SlowCall: second, SlowRate: 0.5, Trials: 4, Initial: breaker.HalfOpen})
			one := func(letter rune) {
				d := second
				if letter > 'Z' {
					d, letter = second+1, letter-'a'+'A'
				}
				last(t, b, letter, d)
			}
			for _, letter := range c.before {
				one(letter)
			}
			require.Equal(t, breaker.HalfOpen, b.State(), c)
			for _, letter := range c.last {
				one(letter)
			}
			require.Equal(t, c.want, b.State(), c)
		})
	}
}

func TestACallIsSlowWhenItTakesLongerThanSlowCall(t *testing.T) {
	t.Parallel()
	for _, cfg := range []breaker.Config{
		{Window: 3, SlowCall: second},
		{WindowTime: time.Hour, MinCalls: 3, SlowCall: second},
		{Window: 3, SlowCall: second, JudgeWithHistory: true, Registry: eventtest.Registry(func(context.Context, registry.Event) {})},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, cfg)
			slow := func(want int) {
				t.Helper()
				require.Equal(t, want, b.Snapshot().Slow)
			}
			last(t, b, 'S', second)
			slow(0)
			last(t, b, 'S', second+1)
			slow(1)
			last(t, b, 'I', time.Hour-10*second)
			slow(1)
			for range 3 { // and now it is calm, where the window is one of calls
				last(t, b, 'S', 0)
			}
			last(t, b, 'S', second)
			require.InDelta(t, 1.0, b.Snapshot().SlowThreshold, 0)
			if cfg.WindowTime == 0 {
				slow(0)
			}
			for range 2 {
				last(t, b, 'S', second+1)
			}
			require.Equal(t, breaker.Closed, b.State(), "by default all of them must be slow")
			before := b.Snapshot().Slow
			last(t, b, 'S', second+1)
			if cfg.WindowTime == 0 {
				require.Equal(t, 2, before)
				require.Equal(t, breaker.Open, b.State())
				require.EqualValues(t, 9, b.Stats().Successes)
			}
		})
	}
}

func TestWhatIsNotTimedIsNotSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 1})
		last(t, b, 'S', 24*time.Hour)
		s := b.Snapshot()
		require.Equal(t, []int{1, 0, 0}, []int{s.Calls, s.Slow, s.SlowFailures})
		require.Zero(t, s.SlowThreshold)
		require.Equal(t, breaker.Closed, s.State)
		require.Zero(t, b.Stats().SlowSuccesses)
	})
}

func TestMetricsOnlyTellsOnceOfEachRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		listening := eventtest.Registry(func(ctx context.Context, e registry.Event) {
			j.change(ctx, e)
			if e.Text == exceededText {
				j.add("%v %v", e.Attr("failure_rate"), e.Attr("slow_rate"))
			}
		})
		b := newBreaker(t, breaker.Config{
			Window: 4, MinCalls: 2, FailureRate: 0.5, SlowCall: second, SlowRate: 0.75, Initial: breaker.MetricsOnly,
			Registry: listening,
		})
		last(t, b, 'F', 0)
		require.Empty(t, j.take(), "too few")
		last(t, b, 'S', 0)
		require.Equal(t, []string{"0.5 0"}, j.take())
		for range 3 {
			last(t, b, 'F', 2*second)
		}
		require.Equal(t, []string{"0.75 0.75"}, j.take())
		run(t, b, "SSSSSFFFF")
		require.Empty(t, j.take(), "once")
		require.Equal(t, breaker.MetricsOnly, b.State())
		require.EqualValues(t, 2, b.Stats().Exceeded)
		require.NoError(t, b.SetState(breaker.Closed))
		run(t, b, "F")
		require.NoError(t, b.SetState(breaker.MetricsOnly))
		run(t, b, "SF")
		require.Equal(t, []string{"metrics_only>closed manual", "closed>metrics_only manual", "0.5 0"}, j.take())
		p := acquire(t, b)
		p.Trip(time.Hour)
		require.Equal(t, breaker.MetricsOnly, b.State())
	})
}

func TestACallMayTripTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Trials: 2, Registry: j.changes()})
		run(t, b, "SF")
		require.Equal(t, breaker.Closed, b.State())
		late, banned := acquire(t, b), acquire(t, b)
		banned.Trip(2 * time.Hour)
		require.Equal(t, 2*time.Hour, rejected(t, b).RetryAfter())
		late.Trip(24 * time.Hour)
		require.Equal(t, 2*time.Hour, rejected(t, b).RetryAfter(), "too late to count")
		time.Sleep(2 * time.Hour)
		trial := acquire(t, b)
		trial.Trip(time.Hour)
		require.Equal(t, time.Hour, rejected(t, b).RetryAfter())
		time.Sleep(time.Hour)
		trial = acquire(t, b)
		trial.Trip(0)
		require.Equal(t, breaker.DefaultOpenTime, rejected(t, b).RetryAfter(), "no more than a failure")
		require.Equal(t, []string{
			"closed>open n=1 for 2h0m0s", "open>half_open n=1", "half_open>open n=2 for 1h0m0s", "open>half_open n=2", "half_open>open n=3 for 1m0s",
		}, j.take())
		require.Equal(t, breaker.Stats{Successes: 1, Failures: 4, Late: 1, Rejected: 4, Opened: 3}, b.Stats())
	})
}

// A ban is about the client, not about the state in which the call began: only an opening since
// then makes it late.
func TestALateTrip(t *testing.T) {
	t.Parallel()
	cfg := breaker.Config{Trials: 3, TrialTimeout: 10 * second}
	for name, c := range map[string]struct {
		between func(t *testing.T, b *breaker.Breaker) // the trial and its answer
		opens   bool
	}{
		"closed":         {func(t *testing.T, b *breaker.Breaker) { run(t, b, "SS") }, true}, //nolint:thelper // it is a part of the test
		"reset":          {func(_ *testing.T, b *breaker.Breaker) { b.Reset() }, true},
		"set to closed":  {func(t *testing.T, b *breaker.Breaker) { require.NoError(t, b.SetState(breaker.Closed)) }, true},             //nolint:thelper // likewise
		"SetConfig":      {func(t *testing.T, b *breaker.Breaker) { require.NoError(t, b.SetConfig(breaker.Config{Trials: 5})) }, true}, //nolint:thelper // likewise
		"given up":       {func(*testing.T, *breaker.Breaker) { time.Sleep(time.Minute) }, true},
		"metrics only":   {func(t *testing.T, b *breaker.Breaker) { require.NoError(t, b.SetState(breaker.MetricsOnly)) }, false}, //nolint:thelper // likewise
		"opened, closed": {func(t *testing.T, b *breaker.Breaker) { require.NoError(t, b.OpenFor(second)); b.Reset() }, false},    //nolint:thelper // likewise
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, cfg)
				require.NoError(t, b.SetState(breaker.HalfOpen))
				trial := acquire(t, b)
				c.between(t, b)
				trial.Trip(time.Hour)
				require.Equal(t, c.opens, b.State() == breaker.Open)
				if c.opens {
					require.Equal(t, time.Hour, rejected(t, b).RetryAfter())
				}
				require.EqualValues(t, 1, b.Stats().Late)
			})
		})
	}
}

func TestSnapshotIsComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 2, Trials: 1, OpenDelay: backoff.Linear{Delay: second, Jitter: -1}})
		run(t, b, "S")
		s := b.Snapshot()
		require.False(t, s.RatesKnown)
		require.Zero(t, s.RetryAfter())
		run(t, b, "S")
		require.True(t, b.Snapshot().RatesKnown)
		run(t, b, "F")
		s = b.Snapshot()
		require.Equal(t, []any{breaker.Open, 1, second, second}, []any{s.State, s.Opened, s.OpenFor, s.RetryAfter()})
		time.Sleep(second / 4)
		require.Equal(t, 3*second/4, s.RetryAfter(), "counts down")
		time.Sleep(second)
		require.Zero(t, s.RetryAfter())
		s = b.Snapshot()
		require.Equal(t, []any{breaker.HalfOpen, 1, false, time.Duration(0)}, []any{s.State, s.Opened, s.RatesKnown, s.RetryAfter()})
		trial := acquire(t, b)
		s = b.Snapshot()
		require.Equal(t, rejected(t, b).RetryAfter(), s.RetryAfter())
		require.Equal(t, second, s.RetryAfter())
		trial.Done(core.Failure)
		s = b.Snapshot()
		require.Equal(t, []any{breaker.Open, 2, 2 * second}, []any{s.State, s.Opened, s.RetryAfter()})
		require.NoError(t, b.SetState(breaker.ForcedOpen))
		require.Negative(t, b.Snapshot().RetryAfter())
		require.NoError(t, b.SetState(breaker.Disabled))
		require.Zero(t, b.Snapshot().RetryAfter())
	})
}

func TestAGroupDropsABreakerWithSlowCallsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, breaker.Config{SlowCall: second}, 2)
		last(t, g.Get("slow"), 'S', 2*second)
		g.Get("idle")
		g.Get("new")
		require.ElementsMatch(t, []string{"slow", "new"}, keys(g))
	})
}
