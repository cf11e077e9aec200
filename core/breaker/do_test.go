package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

type timeoutError struct{}

func (timeoutError) Error() string { return "timed out" }
func (timeoutError) Timeout() bool { return true }

func TestDefaultClassify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := func(ctx context.Context, cancel context.CancelFunc) context.Context {
			cancel()
			return ctx
		}
		cancelled := done(context.WithCancel(t.Context()))
		deadline, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		limit, cancel := context.WithTimeoutCause(t.Context(), time.Second, timeoutError{})
		defer cancel()
		other, cancel := context.WithTimeoutCause(t.Context(), time.Second, errOp)
		defer cancel()
		cancelledCause, cancelCause := context.WithCancelCause(t.Context())
		cancelCause(timeoutError{})
		time.Sleep(time.Minute)
		for _, c := range []struct {
			name string
			ctx  context.Context
			err  error
			want core.Outcome
		}{
			{"success", t.Context(), nil, core.Success},
			{"failure", t.Context(), errOp, core.Failure},
			{"a timeout further in", t.Context(), context.DeadlineExceeded, core.Failure},
			{"somebody else's cancellation", t.Context(), context.Canceled, core.Failure},
			{"rejected further in", t.Context(), fmt.Errorf("inner: %w", core.ErrRejected), core.Ignored},
			{"the caller gave up", cancelled, context.Canceled, core.Ignored},
			{"the caller gave up, in other words", cancelled, errOp, core.Ignored},
			{"but it was done", cancelled, nil, core.Success},
			{"the caller's deadline", deadline, context.DeadlineExceeded, core.Ignored},
			{"a timeout with a cause of its own", limit, context.DeadlineExceeded, core.Failure},
			{"a deadline with another cause", other, context.DeadlineExceeded, core.Ignored},
			{"a cancellation with a timeout as its cause", cancelledCause, context.Canceled, core.Ignored},
		} {
			require.Equal(t, c.want, breaker.DefaultClassify(c.ctx, nil, c.err), c.name)
		}
	})
}

func TestDoReturnsWhatTheOperationReturns(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Window: 1})
	got, err := breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, got)
	// The error of the call that opens the breaker is its own.
	got, err = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 8, errOp })
	require.Equal(t, errOp, err)
	require.Equal(t, 8, got)
	got, err = breaker.Do(t.Context(), b, func(context.Context) (int, error) { t.Error("was run"); return 9, nil })
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.Zero(t, got)
}

func TestPanicsAndGoexitGiveTheSlotBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){
		"panic":     func() { panic("trial") },
		"nil panic": func() { panic(nil) }, //nolint:govet // a *runtime.PanicNilError
		"goexit":    runtime.Goexit,
	} {
		for _, state := range []breaker.State{breaker.Closed, breaker.HalfOpen} {
			b := newBreaker(t, breaker.Config{Trials: 1, Window: 1, Initial: state})
			var panicked any
			var all sync.WaitGroup
			all.Go(func() {
				defer func() { panicked = recover() }()
				_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { end(); return 0, nil })
			})
			all.Wait()
			require.Equal(t, name != "goexit", panicked != nil, name)
			require.Equal(t, state, b.State(), name)
			require.EqualValues(t, 1, b.Stats().Ignored, name)
			run(t, b, "S")
			require.Equal(t, breaker.Closed, b.State(), name)
		}
	}
}

func TestAPanickingClassifyGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{
		Trials: 1, Initial: breaker.HalfOpen,
		Classify: func(context.Context, any, error) core.Outcome { panic("classify") },
	})
	require.PanicsWithValue(t, "classify", func() { _, _ = breaker.Do(t.Context(), b, answer) })
	run(t, b, "S")
	require.Equal(t, breaker.Closed, b.State())
}

func TestBreakerInAPipeline(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Name: "api", Window: 1})
	p, err := core.NewPipeline(b)
	require.NoError(t, err)
	require.Equal(t, "*breaker.Breaker(api)", p.String())
	_, err = core.Do(t.Context(), p, func(context.Context) (string, error) { return "", errOp })
	require.Equal(t, errOp, err)
	_, err = core.Do(t.Context(), p, func(context.Context) (string, error) { return "", nil })
	require.ErrorIs(t, err, breaker.ErrOpen)
}

func TestTheZeroPermitAndASecondDoneDoNothing(t *testing.T) {
	t.Parallel()
	var zero breaker.Permit
	zero.Done(core.Failure)
	b := newBreaker(t, breaker.Config{Trials: 2, Initial: breaker.HalfOpen})
	p := acquire(t, b)
	twin := p
	p.Done(core.Success)
	p.Done(core.Failure)
	twin.Done(core.Failure) // a copy: seen, because the slot is not taken any more
	s := b.Snapshot()
	require.Equal(t, []int{0, 1, 0}, []int{s.TrialsRunning, s.TrialsEnded, s.TrialsFailed})
	odd := acquire(t, b)
	odd.Done(core.Outcome(99))
	require.Equal(t, 1, b.Snapshot().TrialsEnded)
}

// TestNoAllocations is not parallel: it counts those of the whole process.
func TestNoAllocations(t *testing.T) { //nolint:paralleltest // see above
	ctx := context.Background()
	warm := func(b *breaker.Breaker) *breaker.Breaker {
		for range 200 {
			call(ctx, b, core.Success)
		}
		return b
	}
	open := newBreaker(t, breaker.Config{})
	require.NoError(t, open.OpenFor(time.Hour))
	full := newBreaker(t, breaker.Config{Initial: breaker.HalfOpen, Trials: 1})
	acquire(t, full)
	trials := newBreaker(t, breaker.Config{Initial: breaker.HalfOpen})
	observed := newBreaker(t, breaker.Config{OnStateChange: func(context.Context, breaker.StateChange) {}})
	forced := newBreaker(t, with(observed.Config(), func(c *breaker.Config) { c.Initial = breaker.ForcedOpen }))
	calm, mixed := warm(newBreaker(t, breaker.Config{})), warm(newBreaker(t, breaker.Config{}))
	clocked := warm(newBreaker(t, breaker.Config{WindowTime: time.Minute}))
	slow := warm(newBreaker(t, breaker.Config{SlowCall: time.Minute}))
	metrics := newBreaker(t, breaker.Config{Window: 10, Initial: breaker.MetricsOnly})
	trips := warm(newBreaker(t, breaker.Config{Trip: func(context.Context, any, error) time.Duration { return 0 }}))
	group := core.Must(breaker.NewGroup(breaker.Config{}, 0))
	var done error
	fails := func(context.Context) (int, error) { return 0, done }
	reject := func(b *breaker.Breaker) func() {
		return func() {
			if _, err := b.Acquire(ctx); err == nil {
				t.Fatal("admitted")
			}
		}
	}
	for name, f := range map[string]func(){
		"closed":              func() { call(ctx, calm, core.Success) },
		"closed, mixed":       func() { call(ctx, mixed, core.Failure); run5(ctx, mixed) },
		"closed, time window": func() { call(ctx, clocked, core.Success) },
		"closed, slow calls":  func() { call(ctx, slow, core.Success) },
		"metrics only":        func() { call(ctx, metrics, core.Failure) },
		"closed, observed":    func() { call(ctx, observed, core.Success) },
		"do":                  func() { _, _ = breaker.Do(ctx, calm, fails) },
		"do, trip":            func() { _, _ = breaker.Do(ctx, trips, fails) },
		"open":                reject(open),
		"half-open, full":     reject(full),
		"forced, observed":    reject(forced),
		"trial":               func() { call(ctx, trials, core.Ignored) },
		"group":               func() { call(ctx, group.Get("host"), core.Success) },
		"do, open": func() {
			if _, err := breaker.Do(ctx, open, fails); !errors.Is(err, breaker.ErrOpen) {
				t.Fatal(err)
			}
		},
	} {
		f()
		const times = 10_000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			f()
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > times/100 { // what the runtime does meanwhile
			t.Errorf("%s: %d allocations in %d runs", name, n, times)
		}
	}
	require.Equal(t, breaker.Closed, mixed.State())
}

func run5(ctx context.Context, b *breaker.Breaker) {
	for range 5 {
		call(ctx, b, core.Success)
	}
}

func TestConfigTrip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		banned := errors.New("banned")
		type key struct{}
		b := newBreaker(t, breaker.Config{
			Trip: func(ctx context.Context, result any, err error) time.Duration {
				require.NotNil(t, ctx.Value(key{}))
				require.NotErrorIs(t, err, core.ErrRejected)
				if errors.Is(err, banned) || result == "banned" {
					return time.Hour
				}
				return -1
			},
			Classify: func(ctx context.Context, _ any, err error) core.Outcome {
				require.NotErrorIs(t, err, banned)
				return breaker.DefaultClassify(ctx, nil, err)
			},
		})
		ctx := context.WithValue(t.Context(), key{}, true)
		call := func(result string, err error) {
			_, got := breaker.Do(ctx, b, func(context.Context) (string, error) { return result, err })
			require.Equal(t, err, got)
		}
		call("", nil)
		call("", errOp)
		call("", fmt.Errorf("further in: %w", core.ErrRejected))
		require.Panics(t, func() { _, _ = breaker.Do(ctx, b, func(context.Context) (string, error) { panic("op") }) })
		require.Equal(t, breaker.Stats{Successes: 1, Failures: 1, Ignored: 2}, b.Stats())
		call("", banned)
		require.Equal(t, time.Hour, rejected(t, b).RetryAfter())
		time.Sleep(time.Hour)
		p, err := core.NewPipeline(b)
		require.NoError(t, err)
		_, err = core.Do(ctx, p, func(context.Context) (string, error) { return "banned", nil })
		require.NoError(t, err)
		require.Equal(t, time.Hour, rejected(t, b).RetryAfter(), "by a result, in a pipeline")
		require.EqualValues(t, 3, b.Stats().Failures)
		require.NoError(t, b.SetState(breaker.MetricsOnly))
		call("", banned)
		require.Equal(t, breaker.MetricsOnly, b.State())
	})
}

func TestATripThatPanicsGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{
		Trials: 1, Initial: breaker.HalfOpen,
		Trip: func(context.Context, any, error) time.Duration { panic("trip") },
	})
	require.PanicsWithValue(t, "trip", func() { _, _ = breaker.Do(t.Context(), b, answer) })
	run(t, b, "S")
	require.Equal(t, breaker.Closed, b.State())
}

// TestLateDoesNotDependOnListeners ends an ignored call in a later state.
func TestLateDoesNotDependOnListeners(t *testing.T) {
	t.Parallel()
	for _, r := range []*core.Registry{nil, eventtest.Registry(func(context.Context, registry.Event) {})} {
		b := newBreaker(t, breaker.Config{Registry: r})
		now, late := acquire(t, b), acquire(t, b)
		now.Done(core.Ignored)
		b.Reset()
		late.Done(core.Ignored)
		require.Equal(t, breaker.Stats{Ignored: 1, Late: 1}, b.Stats())
	}
}

func TestHalfOpenTellsHowLongToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			openFor, timeout, want time.Duration
		}{
			{2 * time.Hour, 10 * second, 9 * second},
			{5 * second, 10 * second, 5 * second},
			{2 * time.Hour, -1, 2 * time.Hour},
		} {
			b := newBreaker(t, breaker.Config{Trials: 2, TrialTimeout: c.timeout})
			require.NoError(t, b.OpenFor(c.openFor))
			time.Sleep(c.openFor)
			first := acquire(t, b)
			require.Zero(t, b.Snapshot().RetryAfter())
			time.Sleep(second)
			acquire(t, b)
			refusal := rejected(t, b)
			require.Equal(t, c.want, refusal.RetryAfter())
			s := b.Snapshot()
			require.Equal(t, c.want, s.RetryAfter())
			if c.timeout < 0 {
				continue
			}
			time.Sleep(9 * second)
			require.Zero(t, refusal.RetryAfter())
			require.Zero(t, s.RetryAfter())
			require.Zero(t, b.Snapshot().RetryAfter(), "the oldest has lost its slot")
			acquire(t, b)
			require.Equal(t, second, rejected(t, b).RetryAfter(), "the next one has not")
			first.Done(core.Ignored)
			require.Equal(t, second, b.Snapshot().RetryAfter())
		}
	})
}
