package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// The take comes before or after the timer of the waiter, and then sweeps the table: see
// TestAWaiterIsServedInTheWindowThatBeginsAlsoIfTheTableIsSweptThen.
func TestATakeAtTheTurnOfAWaiterServesItInTheWindowThatBegins(t *testing.T) {
	t.Parallel()
	const n = 1_000_000
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerSecond(n), MaxKeys: 16, MaxQueue: 2 * n})
			time.Sleep(10 * time.Second)
			mustPeek(t, l, "other")
			time.Sleep(200 * time.Millisecond)
			r := take(t, l, "k", n)
			require.True(t, r.Allowed)
			time.Sleep(r.FullAfter / 2)
			done := waitAt(t.Context(), l, n)
			time.Sleep(r.FullAfter - r.FullAfter/2)
			require.False(t, take(t, l, "k", 1).Allowed)
			require.Equal(t, r.FullAfter-r.FullAfter/2, (<-done).took)
			time.Sleep(time.Second - time.Microsecond)
			require.False(t, take(t, l, "k", 1).Allowed)
		})
	}
}
