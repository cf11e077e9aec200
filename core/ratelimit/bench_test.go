package ratelimit_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

func benchmarkTake(b *testing.B, limit ratelimit.Limit, keys int, allowed bool) {
	b.Helper()
	l := newLimiter(b, ratelimit.Config{Limit: limit})
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("203.0.113.%d", i)
		if _, err := l.Take(context.Background(), names[i], 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	ctx := context.Background()
	i := 0
	for b.Loop() {
		r, err := l.Take(ctx, names[i], 1)
		if err != nil || r.Allowed != allowed {
			b.Fatalf("%+v, %v", r, err)
		}
		if i++; i == keys {
			i = 0
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		for _, c := range []struct {
			kind, result string
			limit        ratelimit.Limit
		}{
			{"bucket", "allowed", ratelimit.TokenBucket(1<<37, time.Second, 1<<37)},
			{"bucket", "refused", ratelimit.TokenBucket(1, time.Hour, 1)},
			{"window", "allowed", ratelimit.FixedWindow(1<<37, time.Hour)},
			{"window", "refused", ratelimit.PerHour(1)},
		} {
			b.Run(fmt.Sprintf("%s/keys=%d/%s", c.kind, keys, c.result), func(b *testing.B) {
				benchmarkTake(b, c.limit, keys, c.result == "allowed")
			})
		}
	}
	b.Run("bucket/keys=1/parallel", func(b *testing.B) {
		l := newLimiter(b, ratelimit.Config{Limit: ratelimit.TokenBucket(1<<37, time.Second, 1<<37)})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if r, err := l.Take(context.Background(), "k", 1); err != nil || !r.Allowed {
					b.Errorf("%+v, %v", r, err)
					return
				}
			}
		})
	})
}

// BenchmarkFloor is what a keyed take cannot do without: the clock, a hash with a
// seed, and one atomic change of a word.
func BenchmarkFloor(b *testing.B) {
	base, seed := time.Now(), maphash.MakeSeed()
	var words [256]atomic.Int64
	b.ReportAllocs()
	for b.Loop() {
		w := &words[maphash.String(seed, "203.0.113.0")&255]
		if old := w.Load(); !w.CompareAndSwap(old, max(old, int64(time.Since(base)))) {
			b.Fatal("nobody else is here")
		}
	}
}

// mallocs counts what f allocates in n runs. It must not run beside other tests.
func mallocs(n int, f func()) uint64 {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

//nolint:paralleltest // counts allocations
func TestDecisionAllocatesNothing(t *testing.T) {
	ctx, hour, key := t.Context(), ratelimit.PerHour(1), string([]byte("203.0.113.77"))
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(1 << 30), ratelimit.TokenBucket(1<<30, time.Second, 1<<30), hour} {
		l := newLimiter(t, ratelimit.Config{Limit: limit, Limits: map[string]ratelimit.Limit{"tier": ratelimit.PerHour(7)}})
		for name, decide := range map[string]func() (ratelimit.Result, error){
			"take": func() (ratelimit.Result, error) { return l.Take(ctx, key, 1) }, // which an hour refuses
			"tier": func() (ratelimit.Result, error) { return l.Under("tier").Take(ctx, key, 1) },
			"wait": func() (ratelimit.Result, error) { return l.Wait(ctx, key, 1) },
		} {
			if limit == hour && name == "wait" {
				continue // an error is allocated
			}
			require.Less(t, mallocs(10_000, func() {
				if _, err := decide(); err != nil {
					t.Fatal(err)
				}
			}), uint64(100), "%v: %s", limit, name)
		}
		require.Equal(t, limit != hour, l.Stats().Allowed > 20_000, "who waits is served at once")
	}
}
