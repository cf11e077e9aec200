package breaker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func TestOpensAtMinCalls(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 2000, MinCalls: 1000})
	fail := func(context.Context) (int, error) { return 0, errOp }
	for i := range 1000 {
		_, err := breaker.Do(t.Context(), b, fail)
		require.Equal(t, errOp, err, "call %d", i+1)
	}
	_, err := breaker.Do(t.Context(), b, fail)
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.Equal(t, breaker.Open, b.State())
}

func TestResultsCanBeFailures(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{
		FailureRate: 1, Window: 10,
		Classify: func(_ context.Context, result any, _ error) core.Outcome {
			if result == "success" {
				return core.Failure
			}
			return core.Success
		},
	})
	for range 10 {
		require.Equal(t, breaker.Closed, b.State())
		got, err := breaker.Do(t.Context(), b, func(context.Context) (string, error) { return "success", nil })
		require.NoError(t, err)
		require.Equal(t, "success", got)
	}
	require.Equal(t, breaker.Open, b.State())
}

func TestRateIsUnknownBelowMinCalls(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 1000, MinCalls: 3, Initial: breaker.MetricsOnly, JudgeWithHistory: true})
	run(t, b, "FF")
	require.Zero(t, b.Snapshot().FailureRate)
	run(t, b, "F")
	require.InDelta(t, 1.0, b.Snapshot().FailureRate, 0)
	b.Reset()
	require.Zero(t, b.Snapshot().FailureRate)
	require.NoError(t, b.SetState(breaker.MetricsOnly))
	run(t, b, "FFF")
	require.InDelta(t, 1.0, b.Snapshot().FailureRate, 0)
}

func TestASuccessCanOpenTheBreaker(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Window: 10, Registry: j.all()})
	run(t, b, "FSFSFSFSFS")
	require.Equal(t, lines(strings.TrimSuffix(strings.Repeat("failure 0; success 0; ", 4), "; ")+
		"; failure 0; success 0.5; closed>open n=1 for 1m0s"), j.take())
}

func TestWithHistoryTheWindowStaysWhenItCloses(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 10, JudgeWithHistory: true})
	run(t, b, "FSFSFSFSFS")
	require.Equal(t, breaker.Open, b.State())
	require.NoError(t, b.SetState(breaker.Closed))
	run(t, b, "F")
	require.Equal(t, breaker.Open, b.State())
}

func TestWithoutHistoryTheWindowIsEmptyWhenItCloses(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 10})
	run(t, b, "FSFSFSFSFS")
	require.NoError(t, b.SetState(breaker.Closed))
	require.Zero(t, b.Snapshot().Calls)
	run(t, b, "FFFFFFFFF")
	require.Equal(t, breaker.Closed, b.State())
	run(t, b, "S")
	require.Equal(t, breaker.Open, b.State())
}

func TestOpenAndHalfOpenAlternateWithoutCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{OpenDelay: backoff.Constant{Delay: second}, MaxHalfOpen: second, Registry: j.changes()})
		require.NoError(t, b.SetState(breaker.Open))
		for range 5 {
			require.Equal(t, breaker.Open, b.State())
			time.Sleep(second - 1)
			require.Equal(t, breaker.Open, b.State())
			time.Sleep(time.Nanosecond)
			require.Equal(t, breaker.HalfOpen, b.State())
			time.Sleep(second - 1)
			require.Equal(t, breaker.HalfOpen, b.State())
			time.Sleep(time.Nanosecond)
		}
		require.Equal(t, breaker.Open, b.State())
		require.Len(t, j.take(), 11)
	})
}

func TestTheDelayGrowsWithTheCycle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration // n, previous delay
		b := newBreaker(t, breaker.Config{
			MaxHalfOpen: second,
			OpenDelay: backoff.Func(func(n int, prev time.Duration) time.Duration {
				asked = append(asked, time.Duration(n), prev)
				return backoff.Linear{Delay: second, Jitter: -1}.Next(n, prev)
			}),
		})
		require.NoError(t, b.SetState(breaker.Open))
		for n := range 4 {
			time.Sleep(time.Duration(n+1)*second - 1)
			require.Equal(t, breaker.Open, b.State())
			time.Sleep(time.Nanosecond)
			require.Equal(t, breaker.HalfOpen, b.State())
			time.Sleep(second)
			require.Equal(t, breaker.Open, b.State())
		}
		require.NoError(t, b.SetState(breaker.Closed))
		require.NoError(t, b.SetState(breaker.Open))
		require.Equal(t, []time.Duration{1, 0, 2, second, 3, 2 * second, 4, 3 * second, 5, 4 * second, 1, 0}, asked)
	})
}

func TestManualTransitions(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Registry: j.changes()})
	for _, s := range []breaker.State{
		breaker.Open, breaker.HalfOpen, breaker.Closed, breaker.Closed, breaker.HalfOpen,
		breaker.HalfOpen, breaker.Open, breaker.Open, breaker.Closed,
	} {
		require.NoError(t, b.SetState(s))
		require.Equal(t, s, b.State())
	}
	require.Equal(t, []string{
		"closed>open manual n=1 for 1m0s", "open>half_open manual n=1", "half_open>closed manual",
		"closed>half_open manual n=1", "half_open>open manual n=2 for 1m0s", "open>closed manual",
	}, j.take())
}

func TestResetIsANewBeginning(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Window: 10, JudgeWithHistory: true, Registry: j.changes()})
	run(t, b, "FSFSFSFSFS")
	b.Reset()
	require.Equal(t, breaker.Closed, b.State())
	require.Zero(t, b.Snapshot().Calls)
	run(t, b, "FSFSFSFSF")
	require.Equal(t, breaker.Closed, b.State())
	run(t, b, "S")
	require.Equal(t, []string{"closed>open n=1 for 1m0s", "reset", "open>closed manual", "closed>open n=1 for 1m0s"}, j.take())
}

func TestResultsWhileOpenAreDropped(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Window: 2, Registry: j.calls()})
	late, later := acquire(t, b), acquire(t, b)
	run(t, b, "FF")
	before := b.Snapshot()
	j.take()
	late.Done(core.Failure)
	later.Done(core.Success)
	require.Empty(t, j.take())
	require.Equal(t, before, b.Snapshot())
	require.Equal(t, breaker.Stats{Failures: 2, Late: 2, Opened: 1}, b.Stats())
}

func TestFailedTrialsReopenHoweverFewCallsThereWere(t *testing.T) {
	t.Parallel()
	for _, history := range []bool{false, true} {
		b := newBreaker(t, breaker.Config{Trials: 3, JudgeWithHistory: history})
		require.NoError(t, b.SetState(breaker.Open))
		require.NoError(t, b.SetState(breaker.HalfOpen))
		permits := []breaker.Permit{acquire(t, b), acquire(t, b), acquire(t, b)}
		for i := range permits {
			permits[i].Done(core.Failure)
		}
		require.Equal(t, breaker.Open, b.State(), "history %v", history)
	}
}

func TestACancelledTrialGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 1, Initial: breaker.HalfOpen})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := breaker.Do(ctx, b, func(ctx context.Context) (int, error) {
		refused(t, b) //nolint:contextcheck // another call
		cancel()
		return 0, ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, breaker.HalfOpen, b.State())
	run(t, b, "S")
	require.Equal(t, breaker.Closed, b.State())
}

func TestACallAdmittedWhileClosedIsNoTrial(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 2})
	slow := acquire(t, b)
	require.NoError(t, b.SetState(breaker.HalfOpen))
	slow.Done(core.Success)
	s := b.Snapshot()
	require.Equal(t, []int{0, 0, 0}, []int{s.TrialsRunning, s.TrialsEnded, s.TrialsFailed})
	acquire(t, b)
	acquire(t, b)
	refused(t, b)
}

func TestTimeWindow(t *testing.T) {
	cfg := breaker.Config{WindowTime: 10 * second, MinCalls: 4}
	t.Run("within", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, cfg)
			time.Sleep(200 * time.Millisecond)
			run(t, b, "FF")
			time.Sleep(8800 * time.Millisecond)
			run(t, b, "S")
			require.Equal(t, breaker.Closed, b.State())
			run(t, b, "S")
			require.Equal(t, breaker.Open, b.State())
		})
	})
	t.Run("beyond", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, cfg)
			time.Sleep(200 * time.Millisecond)
			run(t, b, "FF")
			time.Sleep(10800 * time.Millisecond)
			run(t, b, "SS")
			require.Equal(t, breaker.Closed, b.State())
			require.Equal(t, 2, b.Snapshot().Calls)
		})
	})
}

func TestARejectionTellsTheTimeLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 1})
		require.NoError(t, b.SetState(breaker.Open))
		first := rejected(t, b)
		require.Equal(t, time.Minute, first.RetryAfter())
		time.Sleep(59 * second)
		second := rejected(t, b)
		require.Same(t, first, second)
		wait, ok := core.RetryAfter(second)
		require.True(t, ok)
		require.Equal(t, time.Second, wait)
		require.EqualError(t, second, "breaker: default: open for another 1s")
		time.Sleep(time.Second)
		trial := acquire(t, b)
		full := rejected(t, b)
		require.Equal(t, time.Minute, full.RetryAfter(), "half-open: as long as it was open")
		require.EqualError(t, full, "breaker: default: half-open, all trials are taken")
		require.Zero(t, first.RetryAfter())
		trial.Done(core.Success)
		require.NoError(t, b.SetState(breaker.ForcedOpen))
		forced := rejected(t, b)
		_, ok = core.RetryAfter(forced)
		require.False(t, ok, "waiting does not help")
		require.EqualError(t, forced, "breaker: default: forced open")
	})
}
