package retry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func answer(context.Context) (int, error) { return 42, nil }

func second(ctx context.Context) (int, error) {
	if retry.Attempt(ctx) == 1 {
		return 0, errBoom
	}
	return 42, nil
}

func budget(ratio float64) retry.Config {
	return retry.Config{Backoff: backoff.Constant{}, Budget: core.Must(retry.NewBudget(ratio, 3))}
}

func TestFirstSuccessAllocatesNothing(t *testing.T) { //nolint:paralleltest // allocations are counted
	ctx, captured := t.Context(), 1
	check := func(int, error) retry.Decision { return retry.Decision{} }
	for name, cfg := range map[string]retry.Config{
		"plain":    {},
		"hook":     {OnRetry: func(context.Context, retry.Retry) {}},
		"observed": {Registry: noted(new([]string))},
		"limited":  {MaxElapsed: time.Hour},
		"budget":   budget(0.2),
	} {
		p := core.Must(retry.New(cfg))
		operation := func(ctx context.Context) (int, error) { captured++; return captured, ctx.Err() }
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			n, err := retry.Do(ctx, p, operation)
			m, failed := retry.Loop(ctx, p, operation, check)
			if n != captured-1 || m != captured || errors.Join(err, failed) != nil {
				t.Fatal(n, err, m, failed)
			}
		}), name)
	}
}

func BenchmarkDoFirstTry(b *testing.B)  { benchmark(b, answer) }
func BenchmarkDoSecondTry(b *testing.B) { benchmark(b, second) }

func benchmark(b *testing.B, op func(context.Context) (int, error)) {
	b.Helper()
	check := func(_ int, err error) retry.Decision { return retry.Decision{Retry: err != nil} }
	for _, c := range []struct {
		name string
		cfg  retry.Config
		do   func(context.Context, *retry.Policy) (int, error)
	}{
		{"plain", retry.Config{Backoff: backoff.Constant{}}, func(ctx context.Context, p *retry.Policy) (int, error) { return retry.Do(ctx, p, op) }},
		{"budget", budget(1), func(ctx context.Context, p *retry.Policy) (int, error) { return retry.Do(ctx, p, op) }},
		{"loop", retry.Config{Backoff: backoff.Constant{}}, func(ctx context.Context, p *retry.Policy) (int, error) { return retry.Loop(ctx, p, op, check) }},
	} {
		p := core.Must(retry.New(c.cfg))
		b.Run(c.name, func(b *testing.B) {
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if n, err := c.do(ctx, p); n != 42 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
