package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// evict takes of other keys until a limiter with MaxKeys 1 has dropped the keys that were there.
func evict(t *testing.T, l *ratelimit.Limiter) {
	t.Helper()
	for i := range 3 {
		take(t, l, fmt.Sprint("other", i), limits.Limit(l.Limit()).Capacity())
	}
	require.Positive(t, l.Stats().Evicted)
}

func TestAnEvictedCounterKeepsTheWeightOfItsWindowBefore(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{100, 40} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: ratelimit.SlidingCounter(100, time.Minute), MaxKeys: 1})
			require.True(t, take(t, l, "k", n).Allowed)
			time.Sleep(90 * time.Second)
			require.Equal(t, 100-n/2, mustPeek(t, l, "k").Remaining)
			evict(t, l)
			require.Equal(t, 100-n/2, mustPeek(t, l, "k").Remaining, "%d taken", n)
			time.Sleep(15 * time.Second)
			r := mustPeek(t, l, "k")
			require.LessOrEqual(t, r.Remaining, 100-n/4)
			require.Equal(t, 15*time.Second, r.FullAfter)
		})
	}
}

func TestTheUsageOfAnEvictedKeyCountsInAnAlignedWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10), MaxKeys: 1})
		day := core.Must(l.WithLimit(ratelimit.AlignedWindow(10, 24*time.Hour)))
		time.Sleep(60 * time.Hour)
		require.True(t, take(t, l, "k", 10).Allowed)
		evict(t, l)
		time.Sleep(time.Second)
		r := take(t, day, "k", 1)
		require.False(t, r.Allowed)
		require.Equal(t, 12*time.Hour-time.Second, r.RetryAfter)
	})
}
