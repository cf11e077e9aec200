//go:build soak

package ratelimit_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits/memory"
)

func TestSoakSettings(t *testing.T) { checkSettings(t, 60) }
func TestSoakPromise(t *testing.T)  { checkPromise(t, 20_000) }

// TestSoakLinear: 16 goroutines x 1,000,000 takes of one key are as if they had come one after the other. A bucket of 4 million gains
// one permit in 39s.
func TestSoakLinear(t *testing.T) {
	for name, limit := range linearLimits(4_000_000) {
		t.Run(name, func(t *testing.T) { checkLinear(t, limit, 1_000_000) })
	}
}

// TestSoakMillionKeys: the memory of a million keys, and that a flood of ten million does not pass the bound.
func TestSoakMillionKeys(t *testing.T) {
	for _, limit := range []ratelimit.Limit{ratelimit.PerHour(10), ratelimit.TokenBucket(10, time.Hour, 10)} {
		before := heap()
		l := newLimiter(t, ratelimit.Config{Limit: limit})
		slowest := time.Duration(0)
		takes := func(n int, format string) {
			for i := range n {
				start := time.Now()
				if _, err := l.Take(t.Context(), fmt.Sprintf(format, i), 1); err != nil {
					t.Fatal(err)
				}
				slowest = max(slowest, time.Since(start))
			}
		}
		takes(1_000_000, "2001:db8:%x::")
		each := float64(heap()-before) / 1e6
		t.Logf("%v: 1,000,000 keys take %.1f bytes each; slowest take while growing %v", limit, each, slowest)
		require.Less(t, each, 40.0)
		takes(10_000_000, "flood %x")
		s := l.Stats()
		t.Logf("%v: after 10,000,000 more keys: %d keys held, %d dropped with a debt", limit, s.Keys, s.Evicted)
		require.LessOrEqual(t, s.Keys, memory.DefaultMaxKeys+256)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
