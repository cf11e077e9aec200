package retry_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

//go:noinline
func answer(context.Context) (int, error) { return 42, nil }

func BenchmarkFloorCall(b *testing.B) {
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := answer(ctx); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkDoFirstTry(b *testing.B) {
	p, ctx := core.Must(retry.New(retry.Config{})), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := retry.Do(ctx, p, answer); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkDoFirstTryWithBudget(b *testing.B) {
	p, ctx := core.Must(retry.New(retry.Config{Budget: core.Must(retry.NewBudget(0.2, 3))})), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := retry.Do(ctx, p, answer); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkDoSecondTryWithBudget(b *testing.B) {
	p, ctx := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, Budget: core.Must(retry.NewBudget(1, 3))})), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := retry.Do(ctx, p, func(ctx context.Context) (int, error) {
			if retry.Attempt(ctx) == 1 {
				return 0, errBoom
			}
			return 42, nil
		}); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkDoFirstTryParallel(b *testing.B) {
	p := core.Must(retry.New(retry.Config{}))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			if n, err := retry.Do(ctx, p, answer); n != 42 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}

func BenchmarkFloorAtomicAdd(b *testing.B) {
	var n atomic.Uint64
	b.ReportAllocs()
	for b.Loop() {
		n.Add(1)
	}
}

func BenchmarkDoSecondTry(b *testing.B) {
	p, ctx := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := retry.Do(ctx, p, func(ctx context.Context) (int, error) {
			if retry.Attempt(ctx) == 1 {
				return 0, errBoom
			}
			return 42, nil
		}); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkLoopFirstTry(b *testing.B) {
	p, ctx := core.Must(retry.New(retry.Config{})), b.Context()
	check := func(int, error) retry.Decision { return retry.Decision{} }
	b.ReportAllocs()
	for b.Loop() {
		if n, err := retry.Loop(ctx, p, answer, check); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}
