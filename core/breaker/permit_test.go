package breaker_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func TestDefaultsWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		s := b.Snapshot()
		require.Equal(t, []any{"default", breaker.Closed, 100, 10}, []any{b.Name(), s.State, s.MinCalls, s.Trials})
		require.InDelta(t, 0.5, s.Threshold, 0)
		require.Zero(t, s.SlowThreshold)
		for range 50 {
			run(t, b, "FS")
		}
		require.Equal(t, time.Minute, rejected(t, b).RetryAfter())
		time.Sleep(time.Minute)
		trial := acquire(t, b)
		time.Sleep(24 * time.Hour)
		require.Equal(t, breaker.HalfOpen, b.State(), "for ever")
		trial.Done(core.Success)
	})
}

func TestMinCallsFollowsTheWindow(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 5})
	run(t, b, "FFFF")
	require.Equal(t, breaker.Closed, b.State())
	run(t, b, "F")
	require.Equal(t, breaker.Open, b.State())
}

func TestLookingMakesTheChangeThatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Registry: j.changes()})
		require.NoError(t, b.OpenFor(second))
		time.Sleep(time.Hour)
		require.Len(t, j.take(), 1, "nothing happens in the background")
		require.Equal(t, breaker.HalfOpen, b.State())
		require.Equal(t, []string{"open>half_open n=1"}, j.take())
	})
}

func TestHalfOpenRejectsWhenItsTrialsRun(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 2, Initial: breaker.HalfOpen})
	acquire(t, b)
	acquire(t, b)
	require.Equal(t, breaker.HalfOpen, rejected(t, b).State)
}

func TestTheOriginalErrorIsReturned(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 1})
	_, err := breaker.Do(t.Context(), b, func(context.Context) (int, error) {
		run(t, b, "F")                            //nolint:contextcheck // it opens while this one runs
		require.Equal(t, breaker.Open, b.State()) //nolint:contextcheck // it takes none
		return 0, errOp
	})
	require.Equal(t, errOp, err)
	require.EqualValues(t, 1, b.Stats().Late)
}

func TestAHundredCallersThatCancelLeaveItClosed(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 1})
	for _, end := range []func() (context.Context, context.CancelFunc){
		func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
		func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 0) },
	} {
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				ctx, cancel := end()
				_, err := breaker.Do(ctx, b, func(ctx context.Context) (int, error) {
					cancel()
					<-ctx.Done()
					return 0, errors.New("whatever it makes of it")
				})
				if err == nil {
					t.Error("no error")
				}
			})
		}
		all.Wait()
	}
	s := b.Snapshot()
	require.Equal(t, []any{breaker.Closed, 0}, []any{s.State, s.Calls})
	require.Equal(t, breaker.Stats{Ignored: 200}, b.Stats())
}

func TestTimeIsAdvancedBeforeAResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Window: 1, OpenDelay: backoff.Constant{Delay: second}, Registry: j.changes()})
		late := acquire(t, b)
		run(t, b, "F")
		time.Sleep(second)
		late.Done(core.Failure)
		require.Equal(t, []string{"closed>open n=1 for 1s", "open>half_open n=1"}, j.take())
	})
}

func TestWithoutADelayTheNextCallIsATrial(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 1, Trials: 1, OpenDelay: backoff.Constant{}})
	run(t, b, "FFS")
	require.Equal(t, breaker.Closed, b.State())
	require.EqualValues(t, 2, b.Stats().Opened)
}

func TestRecordedComesBeforeTheChange(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Window: 1, Trials: 1, OpenDelay: backoff.Constant{Delay: time.Hour}, Registry: j.all()})
	run(t, b, "F")
	refused(t, b)
	b.Reset()
	require.Equal(t, []string{"failure 1", "closed>open n=1 for 1h0m0s", "rejected open", "reset", "open>closed manual"}, j.take())
}

func TestTheWindowAndTheCycles(t *testing.T) {
	t.Parallel()
	for _, history := range []bool{false, true} {
		b := newBreaker(t, breaker.Config{Window: 4, Trials: 2, OpenDelay: backoff.Constant{}, JudgeWithHistory: history})
		run(t, b, "SFFS"+"SS")
		s := b.Snapshot()
		if history {
			require.Equal(t, []any{breaker.Closed, 4, 1}, []any{s.State, s.Calls, s.Failures})
		} else {
			require.Equal(t, []any{breaker.Closed, 0, 0}, []any{s.State, s.Calls, s.Failures})
		}
	}
}

// Mistakes of other breakers.

func TestAnIgnoredTrialDoesNotClose(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 1, Initial: breaker.HalfOpen})
	run(t, b, "IIIIII")
	require.Equal(t, breaker.HalfOpen, b.State())
	run(t, b, "F")
	require.Equal(t, breaker.Open, b.State())
}

func TestLostTrialsDoNotKeepItHalfOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Trials: 3, Initial: breaker.HalfOpen})
		ends := []func(){
			func() {},
			func() { panic("lost") },
			func() { runtime.Goexit() },
		}
		for _, end := range ends {
			for range 3 {
				var all sync.WaitGroup
				all.Go(func() {
					defer func() { _ = recover() }()
					_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) {
						end()
						return 0, core.ErrRejected
					})
				})
				all.Wait()
			}
		}
		require.Zero(t, b.Snapshot().TrialsRunning)
		for range 3 { // nobody ever ends these
			acquire(t, b)
		}
		refused(t, b)
		time.Sleep(breaker.DefaultTrialTimeout)
		run(t, b, "SSS")
		require.Equal(t, breaker.Closed, b.State())
	})
}

func TestTrippedWithoutATimeItAdmitsCallsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{Window: 2, Trials: 1})
		for _, d := range []time.Duration{0, -1} {
			p := acquire(t, b)
			p.Trip(d)
		}
		require.Equal(t, breaker.DefaultOpenTime, rejected(t, b).RetryAfter(), "two failures, no less")
		time.Sleep(time.Hour)
		run(t, b, "S")
		require.Equal(t, breaker.Closed, b.State())
	})
}

func TestASuccessIsComparedToo(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 2})
	run(t, b, "FS")
	require.Equal(t, breaker.Open, b.State())
}

// TestTheTimeToBeOpenIsMonotonic relies on nothing but durations since the
// breaker was made, which package time measures monotonically: a wall clock that is
// set cannot be had in a test.
func TestTheTimeToBeOpenIsMonotonic(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{})
	require.NoError(t, b.OpenFor(time.Hour))
	s := b.Snapshot()
	require.Contains(t, s.OpenUntil.String(), " m=", "it has a monotonic reading")
	require.Contains(t, s.Since.String(), " m=")
}
