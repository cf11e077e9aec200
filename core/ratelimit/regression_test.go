package ratelimit_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/registry"
)

// What a review has found: each was wrong once.

func TestRefundOfAReservationInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, limit := range []ratelimit.Limit{ratelimit.SlidingCounter(10, time.Minute), ratelimit.SlidingLog(10, time.Minute), ratelimit.SlidingWindow(10, time.Minute, 6)} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: limit})
			require.True(t, take(t, l, "k", 10).Allowed)
			var rs []ratelimit.Result
			for range 6 {
				time.Sleep(time.Nanosecond)
				rs = append(rs, reserve(t, l, 2, time.Hour))
			}
			last := rs[5].Wait
			r := refund(t, l, rs[2])
			require.GreaterOrEqual(t, r.NextAfter, last, "nobody takes before the last reservation: %v", limit)
			require.GreaterOrEqual(t, take(t, l, "k", 1).RetryAfter, last)
			for _, i := range []int{0, 5, 3, 1, 4} {
				refund(t, l, rs[i])
			}
			require.Zero(t, mustPeek(t, l, "k").Remaining)
			time.Sleep(2 * time.Minute)
			require.EqualValues(t, 10, mustPeek(t, l, "k").Remaining)
		})
	}
}

func TestReservationsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range every(1, time.Second) {
			if spec(limit).Algorithm == limits.TokenBucket {
				continue // a place is a number
			}
			l := newLimiter(t, ratelimit.Config{Limit: limit})
			granted := 0
			for range 1000 {
				if reserve(t, l, 1, -1).Allowed {
					granted++
				}
			}
			require.LessOrEqual(t, granted, 6, "%v", limit)
			require.GreaterOrEqual(t, granted, 3, "%v", limit)
		}
	})
}

// A reservation that is given back leaves nothing, whatever was skipped for it.
func TestReservationGivenBackLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, limit := range []ratelimit.Limit{
		ratelimit.FixedWindow(10, time.Minute),
		ratelimit.PerHour(10).And(ratelimit.TokenBucket(10, time.Second, 10)),
		ratelimit.TokenBucket(10, time.Second, 10).And(ratelimit.FixedWindow(10, time.Hour)),
		ratelimit.SlidingLog(10, time.Hour).And(ratelimit.TokenBucket(10, time.Minute, 20)),
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: limit})
			first := take(t, l, "k", 6)
			second := reserve(t, l, 6, -1)
			require.Positive(t, second.Wait)
			time.Sleep(time.Millisecond)
			refund(t, l, second)
			require.EqualValues(t, 4, mustPeek(t, l, "k").Remaining, "%v", limit)
			refund(t, l, first)
			require.True(t, take(t, l, "k", 10).Allowed, "%v", limit)
		})
	}
}

func TestRefundAfterSetLimitGoesToWhatWasCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10)})
		require.True(t, take(t, l, "k", 1).Allowed)
		setLimit(t, l, ratelimit.TokenBucket(10, time.Minute, 10))
		for range 5 {
			refund(t, l, take(t, l, "k", 1))
		}
		require.EqualValues(t, 9, mustPeek(t, l, "k").Remaining)
	})
}

// A cost that fits only the limit that has come can be taken at once; one that fits only the limit
// that has gone never can.
func TestSetLimitAndCostsThatFitOnlyOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10), MaxWait: -1})
		require.True(t, take(t, l, "k", 1).Allowed)
		setLimit(t, l, ratelimit.PerMinute(100))
		require.EqualValues(t, 49, take(t, l, "k", 50).Remaining)
		require.Equal(t, time.Minute, served(t, <-waitAt(t.Context(), l, 50)))
		require.Equal(t, limits.Never, take(t, l, "k", 101).RetryAfter)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10), MaxWait: -1})
		require.True(t, take(t, l, "k", 1).Allowed)
		setLimit(t, l, ratelimit.PerMinute(3))
		require.Equal(t, limits.Never, take(t, l, "k", 8).RetryAfter)
		require.EqualValues(t, 0, take(t, l, "k", 2).Remaining)
		w := <-waitAt(t.Context(), l, 5)
		require.ErrorIs(t, w.err, ratelimit.ErrLimited)
		require.Zero(t, w.took, "at once")
	})
}

func TestTakeAtMostOfAllIsNoDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(5, time.Minute), MaxWait: -1})
		require.True(t, take(t, l, "k", 3).Allowed)
		w := waitAt(t.Context(), l, 4)
		require.Zero(t, takeAtMost(t, l, 1<<63-1).Permits, "others wait")
		require.Equal(t, time.Minute, served(t, <-w))
	})
}

func TestLogGivesItsMemoryBack(t *testing.T) { //nolint:paralleltest // it measures the heap
	checkLogMemory(t, 150)
}

func checkLogMemory(t *testing.T, keys int) {
	t.Helper()
	before, after := runtime.MemStats{}, runtime.MemStats{}
	synctest.Test(t, func(t *testing.T) {
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.SlidingLog(1000, time.Second)})
		for range 990 {
			time.Sleep(time.Nanosecond)
			for k := range keys {
				require.True(t, take(t, l, fmt.Sprint(k), 1).Allowed)
			}
		}
		for range 10 { // they are never forgotten as a whole
			time.Sleep(900 * time.Millisecond)
			for k := range keys {
				require.True(t, take(t, l, fmt.Sprint(k), 1).Allowed)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, float64(after.HeapAlloc)-float64(before.HeapAlloc), float64(1000*keys), "a kilobyte a key; it had sixteen")
		runtime.KeepAlive(l)
	})
}

func TestGoexitInAHookLeavesNobodyInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leave := true
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(1), MaxWait: -1, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if leave && e.Text == "waiting for permits" {
				runtime.Goexit()
			}
		})})
		require.True(t, take(t, l, "k", 1).Allowed)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = l.Wait(context.Background(), "k", 1)
		}()
		<-gone
		leave = false
		require.Equal(t, time.Minute, served(t, <-waitAt(t.Context(), l, 1)))
		require.Zero(t, l.Stats().Waiting)
	})
}

func TestGoexitInAHookLeavesNoReservation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leave := true
		l := newLimiter(t, ratelimit.Config{Store: &switchedStore{Store: openMemory(t)}, Limit: ratelimit.PerMinute(1), MaxWait: -1, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if leave && e.Text == "waiting for permits" {
				runtime.Goexit()
			}
		})})
		require.True(t, take(t, l, "k", 1).Allowed)
		for range 5 {
			var all sync.WaitGroup
			all.Go(func() { _, _ = l.Wait(context.Background(), "k", 1) })
			all.Wait()
		}
		leave = false
		require.Equal(t, time.Minute, served(t, <-waitAt(t.Context(), l, 1)))
		require.Zero(t, l.Stats().Waiting)
	})
}
