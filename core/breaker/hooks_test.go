package breaker_test

import (
	"context"
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

func TestHooksMayUseTheBreaker(t *testing.T) {
	t.Parallel()
	var j journal
	var b *breaker.Breaker
	use := func(ctx context.Context) {
		b.State()    //nolint:contextcheck // what is not part of a call takes none
		b.Snapshot() //nolint:contextcheck // as above
		b.Stats()
		if p, err := b.Acquire(ctx); err == nil {
			p.Done(core.Ignored)
		}
	}
	depth := 0
	b = newBreaker(t, breaker.Config{
		Window: 1,
		Hooks: breaker.Hooks{
			StateChanged: func(ctx context.Context, i breaker.Info) {
				use(ctx)
				if i.State == breaker.Open && !i.Manual {
					require.NoError(t, b.SetState(breaker.HalfOpen)) //nolint:contextcheck // as above
					b.Reset()                                        //nolint:contextcheck // as above
				}
			},
			Reset:    func(ctx context.Context, _ breaker.Info) { use(ctx) },
			Rejected: func(context.Context, breaker.Info) { b.State() }, //nolint:contextcheck // as above
			Recorded: func(ctx context.Context, _ breaker.Info) {
				if depth++; depth == 1 {
					use(ctx)
				}
				depth--
			},
		}.Join(j.changes()),
	})
	run(t, b, "F")
	require.Equal(t, []string{
		"closed>open n=1 for 1m0s", "open>half_open manual n=1", "reset", "half_open>closed manual",
	}, j.take())
	require.NoError(t, b.SetState(breaker.ForcedOpen))
	refused(t, b)
	require.Zero(t, b.Stats().HookPanics)
}

func TestAHookThatPanicsIsCountedAndHarmless(t *testing.T) {
	t.Parallel()
	var j journal
	cfg := breaker.Config{
		Window: 2, Trials: 1,
		Hooks: breaker.Hooks{
			StateChanged: func(context.Context, breaker.Info) { panic("changed") },
			Reset:        func(context.Context, breaker.Info) { panic("reset") },
			Recorded:     func(context.Context, breaker.Info) { panic("recorded") },
			Rejected:     func(context.Context, breaker.Info) { panic("rejected") },
		}.Join(j.changes()),
	}
	b := newBreaker(t, cfg)
	run(t, b, "FF")
	require.Equal(t, breaker.DefaultOpenTime, rejected(t, b).RetryAfter().Round(time.Second))
	require.NoError(t, b.SetState(breaker.HalfOpen))
	run(t, b, "S")
	b.Reset()
	require.Equal(t, []string{"closed>open n=1 for 1m0s", "open>half_open manual n=1", "half_open>closed", "reset"}, j.take())
	require.EqualValues(t, 3+3+1+1, b.Stats().HookPanics)
}

func TestObserveUntilCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var infos []breaker.Info
		b := newBreaker(t, breaker.Config{Name: "api", Window: 2})
		early := acquire(t, b)
		cancel := b.Observe(breaker.Hooks{Recorded: func(_ context.Context, i breaker.Info) { infos = append(infos, i) }})
		p := acquire(t, b)
		time.Sleep(3 * second)
		p.Done(core.Failure)
		early.Done(core.Success)
		require.NoError(t, b.SetState(breaker.HalfOpen))
		trial := acquire(t, b)
		time.Sleep(second)
		trial.Done(core.Ignored)
		require.Equal(t, []breaker.Info{
			{Name: "api", Outcome: core.Failure, Duration: 3 * second},
			{Name: "api", Outcome: core.Success, FailureRate: 0.5}, // it was not yet there when the call began
			{Name: "api", State: breaker.HalfOpen, Outcome: core.Ignored, Duration: second},
		}, infos)
		cancel()
		run(t, b, "S")
		require.Len(t, infos, 3)
	})
}

func TestHooksGetTheContextOfTheCall(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "call")
	seen := map[string]any{}
	b := newBreaker(t, breaker.Config{Window: 1, Hooks: breaker.Hooks{
		StateChanged: func(ctx context.Context, _ breaker.Info) { seen["changed"] = ctx.Value(key{}) },
		Recorded:     func(ctx context.Context, _ breaker.Info) { seen["recorded"] = ctx.Value(key{}) },
		Rejected: func(ctx context.Context, i breaker.Info) {
			seen["rejected"], seen["error"] = ctx.Value(key{}), i.Err
		},
	}})
	p, err := b.Acquire(ctx)
	require.NoError(t, err)
	p.Done(core.Failure)
	_, err = b.Acquire(ctx)
	require.Equal(t, map[string]any{"changed": "call", "recorded": "call", "rejected": "call", "error": err}, seen)
}

// TestClosedReadsNoClock sees it by a clock that must not be read: the one of a
// bubble that is over.
func TestClosedReadsNoClock(t *testing.T) {
	t.Parallel()
	var b, timed *breaker.Breaker
	synctest.Test(t, func(t *testing.T) {
		b = newBreaker(t, breaker.Config{Window: 10})
		timed = newBreaker(t, breaker.Config{WindowTime: time.Minute})
	})
	// Out here it is decades later than the breakers have ever seen.
	run(t, b, "SSSSFFFSSSSSSSSSSSSSSSSI")
	run(t, timed, "S")
	s := b.Snapshot()
	require.Equal(t, 10, s.Calls)
	require.Equal(t, breaker.Closed, s.State)
}

func TestALateResultSeesThatTimeHasPassed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Window: 1, Hooks: j.changes()})
		late := acquire(t, b)
		run(t, b, "F")
		time.Sleep(breaker.DefaultOpenTime)
		late.Done(core.Failure)
		require.Equal(t, []string{"closed>open n=1 for 1m0s", "open>half_open n=1"}, j.take())
	})
}

func TestTheFailureRateOfATimeWindowIsNeverStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []float64
		b := newBreaker(t, breaker.Config{WindowTime: time.Second, MinCalls: 2, Initial: breaker.MetricsOnly, Hooks: breaker.Hooks{
			Recorded:     func(_ context.Context, i breaker.Info) { told = append(told, i.FailureRate) },
			StateChanged: func(_ context.Context, i breaker.Info) { told = append(told, i.FailureRate) },
		}})
		run(t, b, "FF")
		require.Equal(t, []float64{0, 1}, told)
		time.Sleep(time.Hour)
		told = nil
		run(t, b, "I")
		require.Equal(t, []float64{0}, told)

		run(t, b, "FF")
		time.Sleep(time.Hour)
		told = nil
		require.NoError(t, b.SetState(breaker.ForcedOpen))
		require.Equal(t, []float64{0}, told)
	})
}

func TestARecordedHookThatEndsItsGoroutineHidesNoChange(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Window: 1, Hooks: j.changes().Join(breaker.Hooks{
		Recorded: func(context.Context, breaker.Info) { runtime.Goexit() },
	})})
	var all sync.WaitGroup
	p := acquire(t, b)
	all.Go(func() { p.Done(core.Failure) })
	all.Wait()
	require.Equal(t, []string{"closed>open n=1 for 1m0s"}, j.take())
}

func TestHalfOpenByHandCountsAsOpenedOnce(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 1, OpenDelay: backoff.Func(func(n int, _ time.Duration) time.Duration {
		return time.Duration(n) * time.Second
	})})
	require.NoError(t, b.SetState(breaker.HalfOpen))
	require.Equal(t, 1, b.Snapshot().Opened)
	run(t, b, "F")
	require.Equal(t, 2*time.Second, b.Snapshot().OpenFor)
}
