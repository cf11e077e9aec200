//go:build soak

package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// TestSoakOneKey: 16 goroutines take at random from one key, and what is granted
// is exactly what the limit has.
func TestSoakOneKey(t *testing.T) {
	for _, limit := range []ratelimit.Limit{ratelimit.Window(4_000_000, 24*time.Hour), ratelimit.Bucket(4_000_000, ratelimit.MaxPeriod, 4_000_000)} {
		l := newLimiter(t, ratelimit.Config{Limit: limit})
		start := time.Now()
		var mu sync.Mutex
		var granted int64
		left := map[int64]bool{}
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				var mine int64
				var remaining []int64
				for range 1_000_000 {
					r, err := l.Take(context.Background(), "k", 1+rand.Int64N(3))
					if err != nil {
						t.Error(err)
						return
					}
					if r.Allowed {
						mine += r.Granted
						remaining = append(remaining, r.Remaining)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				granted += mine
				for _, n := range remaining {
					if left[n] {
						t.Errorf("%d remained twice", n)
					}
					left[n] = true
				}
			})
		}
		wg.Wait()
		r, err := l.Peek(context.Background(), "k")
		require.NoError(t, err)
		require.Equal(t, limit.Capacity(), granted+r.Remaining, "granted and remaining are all there is")
		require.Zero(t, r.Remaining, "16 million attempts use up 4 million permits")
		t.Logf("%v: 16 x 1,000,000 takes in %v, %d permits granted in %d takes", limit, time.Since(start).Round(time.Millisecond), granted, len(left))
	}
}

// TestSoakMillionKeys: the memory of a million keys, and that a flood of ten
// million does not pass the bound.
func TestSoakMillionKeys(t *testing.T) {
	for _, limit := range []ratelimit.Limit{ratelimit.PerHour(10), ratelimit.Bucket(10, time.Hour, 10)} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := newLimiter(t, ratelimit.Config{Limit: limit})
		slowest := time.Duration(0)
		for i := range 1_000_000 {
			start := time.Now()
			if _, err := l.Take(context.Background(), fmt.Sprintf("2001:db8:%x::", i), 1); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(start))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Logf("%v: 1,000,000 keys take %.1f bytes each; slowest take while growing %v", limit, float64(after.HeapAlloc-before.HeapAlloc)/1e6, slowest)
		require.Less(t, float64(after.HeapAlloc-before.HeapAlloc)/1e6, 40.0)
		for i := range 10_000_000 {
			if _, err := l.Take(context.Background(), fmt.Sprintf("flood %x", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		s := l.Stats()
		t.Logf("%v: after 10,000,000 more keys: %d keys held, %d dropped with a debt", limit, s.Keys, s.Evicted)
		require.LessOrEqual(t, s.Keys, ratelimit.DefaultMaxKeys+256)
	}
}
