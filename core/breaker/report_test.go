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
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func TestObserversUseTheBreaker(t *testing.T) {
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
		OnStateChange: func(ctx context.Context, c breaker.StateChange) {
			use(ctx)
			if c.To == breaker.Open && c.Reason == "1 of 1 calls failed" {
				require.NoError(t, b.SetState(breaker.HalfOpen)) //nolint:contextcheck // as above
				b.Reset()                                        //nolint:contextcheck // as above
			}
		},
		Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
			j.change(ctx, e)
			if depth++; depth == 1 {
				use(ctx)
			}
			depth--
		}),
	})
	run(t, b, "F")
	require.Equal(t, []string{
		"closed>open n=1 for 1m0s", "open>half_open manual n=1", "reset", "half_open>closed manual",
	}, j.take())
	require.NoError(t, b.SetState(breaker.ForcedOpen))
	refused(t, b)
}

func TestObserversGetTheContextOfTheCall(t *testing.T) {
	t.Parallel()
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "call")
	seen := map[string]any{}
	b := newBreaker(t, breaker.Config{
		Window:        1,
		OnStateChange: func(ctx context.Context, _ breaker.StateChange) { seen["changed"] = ctx.Value(key{}) },
		Registry:      eventtest.Registry(func(ctx context.Context, e registry.Event) { seen[e.Text] = ctx.Value(key{}) }),
	})
	p, err := b.Acquire(ctx)
	require.NoError(t, err)
	p.Done(core.Failure)
	_, err = b.Acquire(ctx)
	require.Error(t, err)
	require.Equal(t, map[string]any{"changed": "call", changedText: "call", recordedText: "call", rejectedText: "call"}, seen)
}

func TestRecordedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		b := newBreaker(t, breaker.Config{Window: 2, Registry: listened(recordedText, func(e registry.Event) { took = append(took, e.Attr("duration").Duration()) })})
		p := acquire(t, b)
		time.Sleep(3 * second)
		p.Done(core.Failure)
		require.NoError(t, b.SetState(breaker.HalfOpen))
		trial := acquire(t, b)
		time.Sleep(second)
		trial.Done(core.Ignored)
		require.Equal(t, []time.Duration{3 * second, second}, took)
	})
}

// The reason names the rule and its counts.
func TestReasons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reasons []string
		b := newBreaker(t, breaker.Config{
			Window: 4, Trials: 2, SlowCall: second, SlowRate: 0.5, MaxHalfOpen: time.Hour, OpenDelay: backoff.Constant{Delay: time.Minute},
			OnStateChange: func(_ context.Context, c breaker.StateChange) { reasons = append(reasons, c.Reason) },
		})
		run(t, b, "SFSF")
		time.Sleep(time.Minute)
		run(t, b, "F")
		time.Sleep(time.Minute)
		run(t, b, "SS")
		last(t, b, 'S', 2*second)
		last(t, b, 'S', 2*second)
		run(t, b, "SS")
		time.Sleep(time.Minute)
		b.State()
		time.Sleep(time.Hour)
		b.State()
		require.NoError(t, b.SetState(breaker.Closed))
		p := acquire(t, b)
		p.Trip(time.Hour)
		require.Equal(t, []string{
			"2 of 4 calls failed", "open for 1m0s", "1 of 1 trials failed", "open for 1m0s", "0 of 2 trials failed",
			"2 of 4 calls were slow", "open for 1m0s", "half-open for 1h0m0s", "set by hand", "asked to wait",
		}, reasons)
	})
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
		b := newBreaker(t, breaker.Config{Window: 1, Registry: j.changes()})
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
		b := newBreaker(t, breaker.Config{WindowTime: time.Second, MinCalls: 2, Initial: breaker.MetricsOnly, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Text != exceededText {
				told = append(told, e.Attr("failure_rate").Float64())
			}
		})})
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

func TestListenerThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Window: 1, Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
		j.change(ctx, e)
		if e.Call {
			runtime.Goexit()
		}
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
