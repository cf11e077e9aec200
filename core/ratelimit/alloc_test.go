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
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(1 << 30), ratelimit.TokenBucket(1<<30, time.Second, 1<<30), ratelimit.PerHour(1)} {
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

//nolint:paralleltest // counts allocations
func TestAWaitThatIsServedAtOnceAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(1 << 30), ratelimit.TokenBucket(1<<30, time.Second, 1<<30)} {
		l := newLimiter(t, ratelimit.Config{Limit: limit})
		require.Less(t, mallocs(10_000, func() {
			if _, err := l.Wait(ctx, "key", 1); err != nil {
				t.Fatal(err)
			}
		}), uint64(100))
		require.Equal(t, uint64(10_001), l.Stats().Allowed)
	}
}

func TestAWaitIsCountedOnce(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Hour, 1), MaxWait: time.Second})
	for i := range 3 {
		_, err := l.Wait(t.Context(), "key", 1)
		require.Equal(t, i == 0, err == nil)
	}
	require.Equal(t, uint64(1), l.Stats().Allowed)
	require.Equal(t, uint64(2), l.Stats().Rejected)
}
