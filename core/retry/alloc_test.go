package retry_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
)

// mallocs counts the allocations of many runs of f. Not for parallel tests.
func mallocs(f func()) uint64 {
	const runs = 10_000
	f()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / (runs / 100) // per hundred runs: forgives the runtime's own
}

func TestFirstSuccessAllocatesNothing(t *testing.T) { //nolint:paralleltest // allocations are counted
	ctx := t.Context()
	plain := core.Must(retry.New(retry.Config{}))
	hooked := core.Must(retry.New(retry.Config{OnRetry: func(context.Context, retry.Retry) {}}))
	listened := core.Must(retry.New(retry.Config{Registry: noted(new([]string))}))
	budgeted := core.Must(retry.New(retry.Config{Budget: core.Must(retry.NewBudget(0.2, 3))}))
	captured := 1
	for name, p := range map[string]*retry.Policy{"plain": plain, "hooks": hooked, "observed": listened, "budget": budgeted} {
		require.Zero(t, mallocs(func() {
			if n, err := retry.Do(ctx, p, func(context.Context) (int, error) { captured++; return captured, nil }); n != captured || err != nil {
				t.Fatal(n, err)
			}
		}), name)
		require.Zero(t, mallocs(func() {
			c := p.Begin(nil)
			if c.Context(ctx) != ctx || c.Next(ctx, retry.Attempt{}) != retry.Done {
				t.Fatal("not done")
			}
		}), name)
		operation := func(context.Context) (int, error) { return 7, nil }
		wrapped := func(ctx context.Context) (int, error) { return retry.Do(ctx, p, operation) }
		require.Zero(t, mallocs(func() {
			if n, err := wrapped(ctx); n != 7 || err != nil {
				t.Fatal(n, err)
			}
		}), name)
	}
}
