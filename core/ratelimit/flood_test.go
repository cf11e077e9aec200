package ratelimit

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// TestFlood has three times as many fresh keys as there is room for: a key that owed all still
// does, and memory stays where it was. `make soak` has more of both.
func TestFlood(t *testing.T) { checkFlood(t, 2000, 3) } //nolint:paralleltest // the heap is measured

func checkFlood(t *testing.T, most, times int) {
	t.Helper()
	const n = 5
	owe := most / 4
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, l := range []Limit{
		FixedWindow(n, time.Hour), AlignedWindow(n, MaxPeriod), TokenBucket(n, time.Hour, n), SlidingWindow(n, time.Hour, 6), SlidingCounter(n, time.Hour), SlidingLog(n, time.Hour),
		FixedWindow(n, time.Hour).And(SlidingLog(n+1, 2*time.Hour)),
	} {
		for _, cost := range []int64{1, n} { // of those that are fresh
			t.Run(fmt.Sprintf("%v by %d", l, cost), func(t *testing.T) {
				before := heap()
				tab, ids := newTestTable(t, most, l)
				now := time.Duration(0)
				flood := func(name string, keys int) {
					for i := range keys {
						now += time.Microsecond
						mustApply(t, tab, now, fmt.Sprint(name, i), ids[0], limits.Op{Cost: cost})
					}
				}
				for i := range owe {
					require.True(t, mustApply(t, tab, now, fmt.Sprint("owes", i), ids[0], limits.Op{Cost: n}).Allowed)
				}
				flood("first", most)
				filled := heap() - before
				flood("fresh", times*most)
				flooded := heap() - before
				require.LessOrEqual(t, tab.keys.Load(), int64(most+most/16))
				require.Positive(t, tab.evicted.Load())
				require.Less(t, flooded, filled*5/4+64<<10, "bytes, of %d when the table was full", filled)
				for i := range owe {
					r := mustApply(t, tab, now, fmt.Sprint("owes", i), ids[0], limits.Op{Cost: 1})
					require.False(t, r.Allowed, "key %d of those that owe all", i)
					require.Zero(t, r.Remaining)
				}
				runtime.KeepAlive(tab)
				t.Logf("%d bytes when full, %d after the flood", filled, flooded)
			})
		}
	}
}
