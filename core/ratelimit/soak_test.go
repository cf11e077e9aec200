//go:build soak

package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// TestSoakLinear: 16 goroutines x 1,000,000 takes of one key are as if they had come
// one after the other. A bucket of 4 million gains one permit in 39s.
func TestSoakLinear(t *testing.T) {
	for name, limit := range linearLimits(4_000_000) {
		t.Run(name, func(t *testing.T) { checkLinear(t, limit, 1_000_000) })
	}
}

func TestSoakPromise(t *testing.T)                         { checkPromise(t, 20_000) }
func TestSoakChangedLimits(t *testing.T)                   { checkAgainstModel(t, 100) }
func TestSoakRetryAfterAfterAChange(t *testing.T)          { checkRetryAfterAfterAChange(t, 1) }
func TestSoakQueueOfTenThousandLeavesInOrder(t *testing.T) { checkQueue(t, 10_000) }
func TestSoakLogGivesItsMemoryBack(t *testing.T)           { checkLogMemory(t, 500) }

// TestSoakMillionKeys: the memory of a million keys, and that a flood of ten
// million does not pass the bound.
func TestSoakMillionKeys(t *testing.T) {
	for _, limit := range []ratelimit.Limit{ratelimit.PerHour(10), ratelimit.TokenBucket(10, time.Hour, 10)} {
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
