package ratelimit_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

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
func TestTakeAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(1 << 30), ratelimit.TokenBucket(1<<30, time.Second, 0), ratelimit.PerHour(1)} {
		l := newLimiter(t, ratelimit.Config{Limit: limit})
		key := string([]byte("203.0.113.77"))
		require.Less(t, mallocs(10_000, func() {
			if _, err := l.Take(ctx, key, 1); err != nil {
				t.Fatal(err)
			}
		}), uint64(100), "%v: allowed and refused takes", limit)
		require.Less(t, mallocs(10_000, func() {
			v, err := l.WithLimit(ratelimit.PerHour(7))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Take(ctx, key, 1); err != nil {
				t.Fatal(err)
			}
		}), uint64(100), "a tier")
	}
}
