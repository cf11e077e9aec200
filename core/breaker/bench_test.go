package breaker_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
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

func BenchmarkFloorAtomicAdd(b *testing.B) {
	var n atomic.Int64
	b.ReportAllocs()
	for b.Loop() {
		n.Add(1)
	}
}

func BenchmarkFloorAtomicAddParallel(b *testing.B) {
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n.Add(1)
		}
	})
}

func BenchmarkFloorClock(b *testing.B) {
	start := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		if time.Since(start) < 0 {
			b.Fatal()
		}
	}
}

// call makes one call. It takes no testing.TB, whose Helper costs more than it.
func call(ctx context.Context, br *breaker.Breaker, outcome core.Outcome) {
	p, err := br.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	p.Done(outcome)
}

func closed(b *testing.B, cfg breaker.Config, failEvery int) {
	b.Helper()
	br := core.Must(breaker.New(cfg))
	ctx := context.Background()
	for range 200 {
		call(ctx, br, core.Success)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		outcome := core.Success
		if failEvery > 0 {
			if n++; n%failEvery == 0 {
				outcome = core.Failure
			}
		}
		call(ctx, br, outcome)
	}
}

func BenchmarkClosed(b *testing.B)           { closed(b, breaker.Config{}, 0) }
func BenchmarkClosedOneInFifty(b *testing.B) { closed(b, breaker.Config{}, 50) }
func BenchmarkClosedTimeWindow(b *testing.B) {
	closed(b, breaker.Config{WindowTime: time.Minute}, 0)
}

func BenchmarkClosedSlowCalls(b *testing.B) {
	closed(b, breaker.Config{SlowCall: time.Minute}, 0)
}

func BenchmarkClosedDurations(b *testing.B) {
	closed(b, breaker.Config{Registry: eventtest.Registry(func(context.Context, registry.Event) {})}, 0)
}

func closedParallel(b *testing.B, failEvery int) {
	b.Helper()
	br := core.Must(breaker.New(breaker.Config{}))
	for range 200 {
		call(context.Background(), br, core.Success)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx, n := context.Background(), 0
		for pb.Next() {
			outcome := core.Success
			if failEvery > 0 {
				if n++; n%failEvery == 0 {
					outcome = core.Failure
				}
			}
			call(ctx, br, outcome)
		}
	})
}

func BenchmarkClosedParallel(b *testing.B)           { closedParallel(b, 0) }
func BenchmarkClosedOneInFiftyParallel(b *testing.B) { closedParallel(b, 50) }

func BenchmarkDoClosed(b *testing.B) {
	br, ctx := core.Must(breaker.New(breaker.Config{})), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if n, err := breaker.Do(ctx, br, answer); n != 42 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	br, ctx := core.Must(breaker.New(breaker.Config{Initial: breaker.Open})), b.Context()
	if err := br.OpenFor(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := br.Acquire(ctx); err == nil {
			b.Fatal("admitted")
		}
	}
}

func BenchmarkOpenParallel(b *testing.B) {
	br := core.Must(breaker.New(breaker.Config{}))
	if err := br.OpenFor(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			if _, err := br.Acquire(ctx); err == nil {
				b.Fatal("admitted")
			}
		}
	})
}

func BenchmarkGroupGet(b *testing.B) {
	g := core.Must(breaker.NewGroup(breaker.Config{}, 0))
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "host-" + strconv.Itoa(i)
		g.Get(keys[i])
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if g.Get(keys[i]) == nil {
			b.Fatal()
		}
		if i++; i == len(keys) {
			i = 0
		}
	}
}
