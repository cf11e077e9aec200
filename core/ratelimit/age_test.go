package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// No change is of that limit, and no time between two is so long that the words of a key are written anew.
func TestALimitRecoversThoughAnotherIsChangedManyTimesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, limit := range shortLived() {
		for step := 500 * time.Millisecond; step < time.Hour; step = step * 13 / 10 {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1000, 365*24*time.Hour)})
				own := core.Must(l.WithLimit(limit))
				require.True(t, take(t, l, "k", 1).Allowed)
				require.True(t, take(t, own, "k", spec(limit).Permits-1).Allowed)
				for i := range int64(24) {
					time.Sleep(step)
					setLimit(t, l, ratelimit.FixedWindow(2000+i%2, 365*24*time.Hour))
				}
				require.True(t, take(t, own, "k", spec(limit).Permits).Allowed, "%v, every %v", limit, step)
			})
		}
	}
}

// The table is swept after the change, and then not for a time.
func TestALimitRecoversHoweverLongAfterAChangeOfAnotherItsKeyRests(t *testing.T) {
	t.Parallel()
	for _, limit := range shortLived() {
		for step := 10 * time.Minute; step < time.Hour; step = step * 11 / 10 {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1000, 365*24*time.Hour), MaxKeys: 16})
				own := core.Must(l.WithLimit(limit))
				require.True(t, take(t, l, "k", 1).Allowed)
				require.True(t, take(t, own, "k", spec(limit).Permits-1).Allowed)
				setLimit(t, l, ratelimit.FixedWindow(2000, 365*24*time.Hour))
				for range 4 {
					time.Sleep(step)
					mustPeek(t, l, "other")
				}
				time.Sleep(step * 22 / 5)
				require.True(t, take(t, own, "k", spec(limit).Permits).Allowed, "%v, every %v", limit, step)
			})
		}
	}
}

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
