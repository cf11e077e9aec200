package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// countedDay is a sliding counter of n in w, in whole nanoseconds, for takes of one.
type countedDay struct{ n, w, start, prev, cur int64 }

// next is the first time, from now on, at which one more fits.
func (c *countedDay) next(now int64) int64 {
	for ; ; c.start, c.prev, c.cur = c.start+c.w, c.cur, 0 {
		room := c.n - c.cur - 1
		if room < 0 || now >= c.start+c.w {
			continue
		}
		at := now
		if c.prev > 0 { // prev*(w-x) <= room*w
			at = max(now, c.start+(c.prev*c.w-room*c.w+c.prev-1)/c.prev)
		}
		if at < c.start+c.w {
			return at
		}
	}
}

// countDay is how many a counter admits in a day of that length, when there is one take for
// each every, and at once all that fits if every is 0.
func countDay(length time.Duration, n int64, w, every time.Duration) (total int) {
	day := int64(length)
	c := countedDay{n: n, w: int64(w)}
	for i, now := int64(0), int64(0); now < day; i++ {
		at := c.next(now)
		if every == 0 {
			now = at
		}
		if at == now && now < day {
			c.cur++
			total++
		}
		if every > 0 {
			now = offered(i+1, n, every)
		}
	}
	return total
}

// offered is the time of the i-th of n takes in each period, rounded up.
func offered(i, n int64, period time.Duration) int64 {
	return i/n*int64(period) + (i%n*int64(period)+n-1)/n
}

// TestDay takes one permit at a time: as soon as one is there, and evenly, n times in each period.
// `make soak` does it for a whole day.
func TestDay(t *testing.T) {
	t.Parallel()
	checkDay(t, time.Hour)
}

func checkDay(t *testing.T, day time.Duration) {
	t.Helper()
	for _, rate := range []struct {
		n      int64
		period time.Duration
	}{{3, time.Second}, {7, time.Minute}} {
		n, w := rate.n, rate.period
		all := int(n * int64(day/w)) // what a window admits
		for _, c := range []struct {
			limit        Limit
			greedy, even int
		}{
			{FixedWindow(n, w), all, all},
			{AlignedWindow(n, w), all, all},
			{TokenBucket(n, w, n), all + int(n) - 1, all}, // a full bucket first, and then as it fills, the last of it at the end of the day
			{TokenBucket(n, w, 2), all + 1, all},
			{SlidingWindow(n, w, 10), all, all},
			{SlidingCounter(n, w), countDay(day, n, w, 0), countDay(day, n, w, w)},
			{SlidingLog(n, w), all, all},
		} {
			t.Run(c.limit.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { // which begins at midnight
					tab, ids := newTestTable(t, 0, c.limit)
					greedy, even := 0, 0
					for now := time.Duration(0); now < day; {
						r := mustApply(t, tab, now, "greedy", ids[0], limits.Op{Cost: 1})
						greedy += int(r.Permits)
						now += r.RetryAfter
					}
					tab, ids = newTestTable(t, 0, c.limit) // whose day begins again
					for i := int64(0); ; i++ {
						now := offered(i, n, w)
						if now >= int64(day) {
							break
						}
						even += int(mustApply(t, tab, time.Duration(now), "even", ids[0], limits.Op{Cost: 1}).Permits)
					}
					require.Equal(t, []int{c.greedy, c.even}, []int{greedy, even})
				})
			})
		}
	}
}
