package core_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
)

// newStack is retry, breaker and timeout, the usual three.
func newStack(tb testing.TB) (*retry.Policy, *breaker.Breaker, *timeout.Timeout) {
	tb.Helper()
	r, err := retry.New(retry.Config{})
	require.NoError(tb, err)
	b, err := breaker.New(breaker.Config{})
	require.NoError(tb, err)
	t, err := timeout.New(timeout.Config{Limit: time.Second})
	require.NoError(tb, err)
	return r, b, t
}

// byHand nests the three without a pipeline, around a closure that captures.
func byHand(ctx context.Context, r *retry.Policy, b *breaker.Breaker, t *timeout.Timeout, n int) (int, error) {
	return retry.Do(ctx, r, func(ctx context.Context) (int, error) {
		return breaker.Do(ctx, b, func(ctx context.Context) (int, error) {
			return timeout.Do(ctx, t, func(context.Context) (int, error) { return n, nil })
		})
	})
}

//nolint:paralleltest // counts allocations
func TestAllocations(t *testing.T) {
	r, b, limit := newStack(t)
	p := core.Must(core.NewPipeline(r, b, limit))
	ctx := t.Context()
	n := 1000
	per := func(f func() (int, error)) float64 {
		const runs = 2000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			if got, err := f(); err != nil || got != n {
				t.Fatal(got, err)
			}
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / runs
	}
	require.Less(t, per(func() (int, error) { return byHand(ctx, r, b, limit, n) }), 4.5, "nested by hand: those of context.WithTimeout alone")
	require.Less(t, per(func() (int, error) {
		return core.Do(ctx, p, func(context.Context) (int, error) { return n, nil })
	}), 7.5, "in a pipeline")
}

func BenchmarkThreeMechanisms(b *testing.B) {
	r, br, limit := newStack(b)
	p := core.Must(core.NewPipeline(r, br, limit))
	ctx := context.Background()
	for name, call := range map[string]func() (int, error){
		"by hand":  func() (int, error) { return byHand(ctx, r, br, limit, 1) },
		"pipeline": func() (int, error) { return core.Do(ctx, p, func(context.Context) (int, error) { return 1, nil }) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got, err := call(); err != nil || got != 1 {
					b.Fatal(got, err)
				}
			}
		})
	}
}
