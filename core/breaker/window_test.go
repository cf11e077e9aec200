package breaker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

// window requires what is in the window, and its rate.
func window(t *testing.T, b *breaker.Breaker, calls, failures int, rate float64) {
	t.Helper()
	s := b.Snapshot()
	require.Equal(t, []int{calls, failures}, []int{s.Calls, s.Failures})
	require.InDelta(t, rate, s.FailureRate, 0)
}

func TestTheWindowHoldsTheLastCalls(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 10, Initial: breaker.MetricsOnly})
	run(t, b, "SSFF")
	window(t, b, 4, 2, 0)
	run(t, b, "FFFFSSSS")
	window(t, b, 10, 6, 0.6)
	run(t, b, "SSS")
	window(t, b, 10, 3, 0.3)
	require.Equal(t, breaker.MetricsOnly, b.State())
}

func TestOpensAtExactlyTheRate(t *testing.T) {
	t.Parallel()
	for _, outcomes := range []string{"FFSS", "SSFF", "SFSF"} {
		b := newBreaker(t, breaker.Config{Window: 4})
		run(t, b, outcomes[:3])
		window(t, b, 3, b.Snapshot().Failures, 0)
		require.Equal(t, breaker.Closed, b.State())
		run(t, b, outcomes[3:])
		require.Equal(t, breaker.Open, b.State(), outcomes)
	}
}

func TestATrialThatFailsOpensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{WindowTime: 10 * second, MinCalls: 10, Trials: 1, OpenDelay: backoff.Constant{Delay: second}, Registry: j.changes()})
		run(t, b, "FFFFFFFFFF")
		require.Equal(t, second, rejected(t, b).RetryAfter())
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 500*time.Millisecond, rejected(t, b).RetryAfter())
		time.Sleep(500 * time.Millisecond)
		run(t, b, "F")
		require.Equal(t, second, rejected(t, b).RetryAfter())
		time.Sleep(second)
		run(t, b, "S")
		require.Equal(t, breaker.Closed, b.State())
		require.Equal(t, []string{
			"closed>open n=1 for 1s", "open>half_open n=1", "half_open>open n=2 for 1s", "open>half_open n=2", "half_open>closed",
		}, j.take())
	})
}

func TestAnIgnoredCallIsNotInTheWindow(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 2})
	run(t, b, "FI")
	require.Equal(t, breaker.Closed, b.State())
	s := b.Snapshot()
	require.Equal(t, []int{1, 1}, []int{s.Calls, s.Failures})
}

func TestTimeWindowOpensAtTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 20 * second, MinCalls: 5})
		for _, o := range []string{"S", "S", "S", "F", "F"} {
			run(t, b, o)
			time.Sleep(second)
		}
		require.Equal(t, breaker.Closed, b.State())
		run(t, b, "F")
		require.Equal(t, breaker.Open, b.State())
	})
}

func TestTimeWindowNeedsMinCalls(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{WindowTime: 5 * time.Minute})
	for range 99 {
		run(t, b, "F")
	}
	require.Equal(t, breaker.Closed, b.State())
	run(t, b, "F")
	require.Equal(t, breaker.Open, b.State())
}

func TestTimeWindowStepsOutByTenths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{WindowTime: 10 * second, MinCalls: 2, FailureRate: 1})
		steps := []struct {
			outcomes        string
			calls, failures int
			rate            float64
		}{
			{"FS", 2, 1, 0.5},
			{"FS", 4, 2, 0.5},
			{"SS", 6, 2, 2.0 / 6},
			{"SS", 8, 2, 0.25},
			{"SS", 8, 1, 0.125},
			{"", 6, 0, 0},
			{"", 4, 0, 0},
			{"", 2, 0, 0},
			{"", 0, 0, 0},
		}
		for _, s := range steps {
			run(t, b, s.outcomes)
			time.Sleep(2 * second)
			window(t, b, s.calls, s.failures, s.rate)
		}
		run(t, b, "SSSS")
		time.Sleep(24 * time.Hour)
		window(t, b, 0, 0, 0)
	})
}

func TestHalfOpenIsJudgedByItsTrials(t *testing.T) {
	t.Parallel()
	for outcomes, want := range map[string]breaker.State{"FFSF": breaker.Open, "SSFF": breaker.Open, "FSSS": breaker.Closed, "SSSS": breaker.Closed} {
		b := newBreaker(t, breaker.Config{Window: 10, Trials: 4})
		run(t, b, "FFFFFFFFFF")
		require.NoError(t, b.SetState(breaker.HalfOpen))
		var permits []breaker.Permit
		for range outcomes {
			permits = append(permits, acquire(t, b))
		}
		for i, c := range outcomes {
			permits[i].Done(outcomeOf(c))
		}
		require.Equal(t, want, b.State(), outcomes)
		if want == breaker.Closed {
			window(t, b, 0, 0, 0)
		}
	}
}

func TestDecidesAsSoonAsItIsCertain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trials int
		rate   float64
		before string // still half-open after these
		last   string
		want   breaker.State
	}{
		{5, 0.5, "FF", "F", breaker.Open},
		{5, 0.5, "SS", "S", breaker.Closed},
		{4, 0.5, "F", "F", breaker.Open},
		{4, 0.5, "FSS", "S", breaker.Closed},
		{10, 0.1, "", "F", breaker.Open},
		{10, 1, "FFFF", "S", breaker.Closed},
		{3, 1, "FF", "F", breaker.Open},
		{1, 0.01, "", "S", breaker.Closed},
	} {
		b := newBreaker(t, breaker.Config{FailureRate: c.rate, Window: 2, Trials: c.trials, Initial: breaker.HalfOpen})
		run(t, b, c.before)
		require.Equal(t, breaker.HalfOpen, b.State(), c)
		run(t, b, c.last)
		require.Equal(t, c.want, b.State(), c)
	}
}

func TestExponentialOpenDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 1, Trials: 1, OpenDelay: backoff.Exponential{Delay: second, Jitter: -1}})
		for _, want := range []time.Duration{second, 2 * second, 4 * second} {
			run(t, b, "F")
			require.Equal(t, want, rejected(t, b).RetryAfter())
			time.Sleep(want)
		}
		run(t, b, "S")
		run(t, b, "F")
		require.Equal(t, second, rejected(t, b).RetryAfter())
	})
}

func TestOpenFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 1})
		require.NoError(t, b.OpenFor(2*time.Hour))
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, rejected(t, b).RetryAfter())
		require.NoError(t, b.OpenFor(30*time.Minute), "anew")
		time.Sleep(15 * time.Minute)
		require.Equal(t, 15*time.Minute, rejected(t, b).RetryAfter())
		time.Sleep(15 * time.Minute)
		require.Equal(t, breaker.HalfOpen, b.State())
		run(t, b, "F")
		require.Equal(t, breaker.DefaultOpenTime, rejected(t, b).RetryAfter(), "then as always")
		for _, bad := range []time.Duration{0, -1} {
			require.ErrorIs(t, b.OpenFor(bad), core.ErrConfig)
		}
	})
}

func TestClosedToHalfOpenIsLegalAndUnknownStatesAreNot(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{})
	require.NoError(t, b.SetState(breaker.HalfOpen))
	require.Equal(t, breaker.HalfOpen, b.State())
	require.ErrorIs(t, b.SetState(breaker.MetricsOnly+1), core.ErrConfig)
	require.Equal(t, breaker.HalfOpen, b.State())
}

func TestAClassifierMayOpenTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		banned := errors.New("banned")
		var b *breaker.Breaker
		b = newBreaker(t, breaker.Config{Classify: func(_ context.Context, _ any, err error) core.Outcome {
			if errors.Is(err, banned) {
				require.NoError(t, b.OpenFor(2*time.Hour)) //nolint:contextcheck // it takes none
			}
			return core.Failure
		}})
		for _, c := range []struct {
			err  error
			want breaker.State
		}{{errOp, breaker.Closed}, {banned, breaker.Open}} {
			_, err := breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, c.err })
			require.Equal(t, c.err, err)
			require.Equal(t, c.want, b.State())
		}
		require.Equal(t, 2*time.Hour, rejected(t, b).RetryAfter())
	})
}

func TestLateResultsDoNotDecideHalfOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 4, Trials: 2, OpenDelay: backoff.Constant{Delay: second}})
		var old [6]breaker.Permit
		for i := range old {
			old[i] = acquire(t, b)
		}
		for i := range 4 {
			old[i].Done(core.Failure)
		}
		require.Equal(t, breaker.Open, b.State())
		time.Sleep(second)
		probe := acquire(t, b)
		old[4].Done(core.Success)
		old[5].Done(core.Success)
		require.Equal(t, breaker.HalfOpen, b.State())
		other := acquire(t, b)
		refused(t, b)
		require.EqualValues(t, 2, b.Stats().Late)
		probe.Done(core.Success)
		require.Equal(t, breaker.HalfOpen, b.State())
		other.Done(core.Success)
		require.Equal(t, breaker.Closed, b.State())
	})
}

func TestALateFailureDoesNotExtendOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Window: 1, Registry: j.changes()})
		late := acquire(t, b)
		run(t, b, "F")
		time.Sleep(30 * second)
		late.Failed(time.Hour)
		require.Equal(t, 30*second, rejected(t, b).RetryAfter())
		require.Equal(t, []string{"closed>open n=1 for 1m0s"}, j.take())
	})
}

func TestAHungTrialLosesItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 2, TrialTimeout: 10 * second, Initial: breaker.HalfOpen})
		hung := acquire(t, b)
		time.Sleep(second)
		slow := acquire(t, b)
		time.Sleep(9*second - 1)
		refused(t, b)
		time.Sleep(time.Nanosecond)
		successor := acquire(t, b)
		refused(t, b)
		hung.Done(core.Failure)
		hung.Done(core.Failure)
		s := b.Snapshot()
		require.Equal(t, []int{2, 0, 0}, []int{s.TrialsRunning, s.TrialsEnded, s.TrialsFailed}, "its result is nothing")
		require.EqualValues(t, 1, b.Stats().Late)
		time.Sleep(time.Hour)
		slow.Done(core.Success) // over their time as well, though nobody has taken their slots
		successor.Done(core.Success)
		s = b.Snapshot()
		require.Equal(t, []any{breaker.HalfOpen, 0, 0}, []any{s.State, s.TrialsRunning, s.TrialsEnded})
		require.EqualValues(t, 3, b.Stats().Late)
		run(t, b, "SS")
		require.Equal(t, breaker.Closed, b.State())
	})
}

func TestWithoutATrialTimeoutASlotIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 1, TrialTimeout: -1, Initial: breaker.HalfOpen})
		acquire(t, b)
		time.Sleep(100 * 24 * time.Hour)
		refused(t, b)
	})
}

func TestAFailureMayAskForTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 2, Trials: 1})
		p := acquire(t, b)
		p.Failed(time.Hour)
		require.Equal(t, breaker.Closed, b.State(), "the rate is not reached")
		p = acquire(t, b)
		p.Failed(2 * time.Minute)
		require.Equal(t, 2*time.Minute, rejected(t, b).RetryAfter())
		time.Sleep(2 * time.Minute)
		p = acquire(t, b)
		p.Failed(second)
		require.Equal(t, time.Minute, rejected(t, b).RetryAfter(), "at least OpenDelay")
	})
}
