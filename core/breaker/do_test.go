package breaker_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
)

// hangs is an operation that ends with its context.
func hangs(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	limited := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		ctx  func(*testing.T) context.Context
		op   func(context.Context) (int, error)
		want core.Outcome
	}{
		"a result":             {nil, func(context.Context) (int, error) { return 1, nil }, core.Success},
		"an error":             {nil, func(context.Context) (int, error) { return 0, errDown }, core.Failure},
		"a rejection":          {nil, func(context.Context) (int, error) { return 0, fmt.Errorf("x: %w", core.ErrRejected) }, core.Ignored},
		"the caller cancels":   {canceled(time.Second), hangs, core.Ignored},
		"another error then":   {canceled(time.Second), func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, errDown }, core.Ignored},
		"the caller's limit":   {limited, hangs, core.Failure},
		"a limit with a cause": {caused(&timeout.Error{}), hangs, core.Failure},
		"a sibling timed out":  {canceledBy(&timeout.Error{}), hangs, core.Ignored},
		"a result after it":    {limited, func(ctx context.Context) (int, error) { <-ctx.Done(); return 1, nil }, core.Success},
		"its own limit": {nil, func(ctx context.Context) (int, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return hangs(ctx)
		}, core.Failure},
		"its own cancellation": {nil, func(context.Context) (int, error) { return 0, context.Canceled }, core.Failure},
		"a panic":              {nil, func(context.Context) (int, error) { panic("mine") }, core.Failure},
		"a Goexit":             {nil, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, core.Ignored},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{})
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx(t)
			}
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				_, _ = breaker.Do(ctx, b, c.op)
			}()
			require.Equal(t, name == "a panic", <-ended != nil)
			s := b.Stats()
			require.Equal(t, map[core.Outcome]uint64{c.want: 1}, nonzero(s), name)
		})
	}
}

func nonzero(s breaker.Stats) map[core.Outcome]uint64 {
	all := map[core.Outcome]uint64{core.Success: s.Successes, core.Failure: s.Failures, core.Ignored: s.Ignored}
	for o, n := range all {
		if n == 0 {
			delete(all, o)
		}
	}
	return all
}

func canceled(after time.Duration) func(*testing.T) context.Context {
	return func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(after, cancel)
		return ctx
	}
}

func canceledBy(cause error) func(*testing.T) context.Context {
	return func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
}

func caused(cause error) func(*testing.T) context.Context {
	return func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		t.Cleanup(cancel)
		return ctx
	}
}

// An upstream that never answers opens the breaker, whatever limits its calls.
func TestHangingUpstreamOpens(t *testing.T) {
	t.Parallel()
	short := core.Must(timeout.New(timeout.Config{Limit: time.Second}))
	again := core.Must(retry.New(retry.Config{MaxAttempts: 3}))
	for name, mechanisms := range map[string]func(*breaker.Breaker) []core.Mechanism{
		"the caller's deadline": func(b *breaker.Breaker) []core.Mechanism { return []core.Mechanism{b} },
		"a timeout inside":      func(b *breaker.Breaker) []core.Mechanism { return []core.Mechanism{b, short} },
		"a timeout outside":     func(b *breaker.Breaker) []core.Mechanism { return []core.Mechanism{short, b} },
		"inside of a retry":     func(b *breaker.Breaker) []core.Mechanism { return []core.Mechanism{again, b, short} },
		"in both":               func(b *breaker.Breaker) []core.Mechanism { return []core.Mechanism{short, again, b} },
	} {
		synctest.Test(t, func(t *testing.T) {
			b, calls := newBreaker(t, breaker.Config{}), 0
			p := core.Must(core.NewPipeline(mechanisms(b)...))
			for range 1000 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				_, err := core.Do(ctx, p, func(ctx context.Context) (int, error) { calls++; return hangs(ctx) })
				cancel()
				if err == nil || b.State() != breaker.Closed {
					break
				}
			}
			require.Equal(t, 5, calls, name)
			require.Equal(t, breaker.Open, b.State(), name)
		})
	}
}

func TestClassifyIsYours(t *testing.T) {
	t.Parallel()
	var j journal
	b := newBreaker(t, breaker.Config{Failures: 2, OnStateChange: j.changed, Classify: func(ctx context.Context, result any, err error) core.Outcome {
		if result.(int) > 1 {
			return core.Failure
		}
		return breaker.Classify(ctx, result, err)
	}})
	do := func(ctx context.Context, n int, err error) {
		got, failed := breaker.Do(ctx, b, func(context.Context) (int, error) { return n, err })
		require.Equal(t, n, got)
		require.Equal(t, err, failed)
	}
	do(t.Context(), 2, nil)
	do(t.Context(), 1, nil)
	over := b.Override(b.Override(t.Context(), func(c *breaker.Config) { c.Classify = nil }), func(*breaker.Config) {})
	do(over, 2, nil)
	do(t.Context(), 2, nil)
	do(t.Context(), 0, errDown)
	require.Equal(t, []string{"closed > open: 2 failures in a row"}, []string{j.take()[0][:len("closed > open: 2 failures in a row")]})
	_, err := breaker.Do(t.Context(), b, func(context.Context) (int, error) { t.Error("it is open"); return 0, nil })
	require.ErrorIs(t, err, breaker.ErrOpen)
}

func TestClassifyPanics(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Initial: breaker.HalfOpen, Trials: 1, Classify: func(context.Context, any, error) core.Outcome { panic("mine") }})
	for range 3 {
		require.PanicsWithValue(t, "mine", func() {
			_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, errDown })
		})
	}
	require.Equal(t, map[core.Outcome]uint64{core.Ignored: 3}, nonzero(b.Stats()))
}
