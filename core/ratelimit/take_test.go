package ratelimit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

const ms = time.Millisecond

// A bubble is a test in virtual time, and its limiter.
type bubble struct {
	*testing.T
	l *ratelimit.Limiter
}

// inBubbles runs a test for each limit, in virtual time.
func inBubbles(t *testing.T, limits []ratelimit.Limit, f func(t bubble)) {
	t.Helper()
	ratelimit.EachLimit(t, limits, func(t ratelimit.LimitTest) {
		f(bubble{t.T, newLimiter(t, ratelimit.Config{Limit: t.Limit, MaxWait: -1})})
	})
}

// mustPeek looks at a key.
func mustPeek(tb testing.TB, l *ratelimit.Limiter, key string) ratelimit.Result {
	tb.Helper()
	r, err := l.Peek(tb.Context(), key)
	require.NoError(tb, err)
	return r
}

func reserve(tb testing.TB, l *ratelimit.Limiter, n int64, most time.Duration) ratelimit.Result {
	tb.Helper()
	r, err := l.Reserve(tb.Context(), "k", n, most)
	require.NoError(tb, err)
	return r
}

func refund(tb testing.TB, l *ratelimit.Limiter, r ratelimit.Result) ratelimit.Result {
	tb.Helper()
	require.NoError(tb, l.Refund(tb.Context(), r))
	r, err := l.Peek(tb.Context(), "k")
	require.NoError(tb, err)
	return r
}

// waitAt waits in a goroutine and tells how long it took, or that it failed.
func waitAt(ctx context.Context, l *ratelimit.Limiter, n int64) <-chan waited {
	done := make(chan waited, 1)
	start := time.Now()
	go func() {
		r, err := l.Wait(ctx, "k", n)
		done <- waited{r, err, time.Since(start)}
	}()
	synctest.Wait() // it has its place
	return done
}

type waited struct {
	r    ratelimit.Result
	err  error
	took time.Duration
}

func spec(l ratelimit.Limit) limits.Spec { return limits.Limit(l).Specs()[0] }

func takeAtMost(tb testing.TB, l *ratelimit.Limiter, n int64) ratelimit.Result {
	tb.Helper()
	r, err := l.TakeAtMost(tb.Context(), "k", n)
	require.NoError(tb, err)
	return r
}

// There are no negative costs: what comes back names the take, and never makes a key richer than its limit.
func TestRefundIsCapped(t *testing.T) {
	t.Parallel()
	inBubbles(t, ratelimit.Every(2, time.Minute), func(t bubble) {
		r := take(t, t.l, "k", 1)
		require.EqualValues(t, 2, refund(t, t.l, r).Remaining)
		require.EqualValues(t, 2, refund(t, t.l, r).Remaining) // once more than it should be
		require.Zero(t, take(t, t.l, "k", 2).Remaining)
		require.False(t, take(t, t.l, "k", 1).Allowed)
	})
}

// A look sweeps the table, which rewrites the counts of joined limits.
func TestReserveOfASweptKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 60_000
		limit := ratelimit.FixedWindow(n, time.Minute+1)
		l := newLimiter(t, ratelimit.Config{Limit: limit.And(ratelimit.SlidingCounter(1<<30, time.Hour))})
		require.True(t, take(t, l, "k", n).Allowed)
		require.True(t, reserve(t, l, n, spec(limit).Period).Allowed)
		time.Sleep(spec(limit).Period + time.Second)
		r := take(t, l, "k", n)
		require.Equal(t, spec(limit).Period-time.Second, r.RetryAfter)
		time.Sleep(r.RetryAfter - time.Second)
		require.Equal(t, time.Second, mustPeek(t, l, "k").NextAfter)
		time.Sleep(time.Second)
		require.True(t, take(t, l, "k", n).Allowed)
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	inBubbles(t, ratelimit.Every(10, time.Minute), func(t bubble) {
		require.True(t, take(t, t.l, "k", 1).Allowed)
		r, err := t.l.Drain(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.EqualValues(t, 9, r.Permits)
		r = take(t, t.l, "k", 1)
		require.False(t, r.Allowed)
		require.Zero(t, r.Remaining)
		r, err = t.l.Drain(t.Context(), "k")
		require.NoError(t, err)
		require.Zero(t, r.Permits, "nothing is left")
		require.EqualValues(t, 2, t.l.Stats().Allowed)
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 10, mustPeek(t, t.l, "k").Remaining)
	})
}

// A window whose only take is refunded still ends when it said, also if its slot is swept in the meantime.
func TestRefundKeepsTheWindow(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{
		ratelimit.FixedWindow(5, time.Hour), ratelimit.AlignedWindow(5, time.Hour), ratelimit.SlidingCounter(5, time.Hour),
		ratelimit.FixedWindow(1e9, time.Hour).And(ratelimit.FixedWindow(5, 2*time.Hour)),
	}, func(t bubble) {
		said := take(t, t.l, "k", 3)
		ends := time.Now().Add(said.FullAfter)
		r := refund(t, t.l, said)
		require.EqualValues(t, 5, r.Remaining)
		require.Zero(t, r.FullAfter)
		time.Sleep(50 * time.Minute)
		t.l.Stats() // sweeps
		again := take(t, t.l, "k", 5)
		require.Equal(t, ends, time.Now().Add(again.FullAfter))
		refund(t, t.l, again)
		time.Sleep(time.Until(ends))
		require.Equal(t, said.FullAfter, take(t, t.l, "k", 1).FullAfter, "a new one")
		time.Sleep(5 * time.Hour)
		require.Zero(t, t.l.Stats().Keys)
	})
}

// So does a window that was reserved, and that has begun.
func TestRefundKeepsTheReservedWindow(t *testing.T) {
	t.Parallel()
	perMinute := ratelimit.PerMinute(10)
	inBubbles(t, []ratelimit.Limit{perMinute, perMinute.And(ratelimit.PerHour(100))}, func(t bubble) {
		require.True(t, take(t, t.l, "k", 10).Allowed)
		r, err := t.l.Wait(t.Context(), "k", 5)
		require.NoError(t, err)
		require.Equal(t, time.Minute, r.Wait)
		require.EqualValues(t, 10, refund(t, t.l, r).Remaining)
		time.Sleep(30 * time.Second)
		require.Equal(t, 30*time.Second, take(t, t.l, "k", 1).FullAfter)
	})
}

func TestRefundOfAReservationInTheMiddle(t *testing.T) {
	t.Parallel()
	inBubbles(t, ratelimit.Every(10, time.Minute)[3:], func(t bubble) {
		require.True(t, take(t, t.l, "k", 10).Allowed)
		var rs []ratelimit.Result
		for range 6 {
			time.Sleep(time.Nanosecond)
			rs = append(rs, reserve(t, t.l, 2, time.Hour))
		}
		last := rs[5].Wait
		r := refund(t, t.l, rs[2])
		require.GreaterOrEqual(t, r.NextAfter, last, "nobody takes before the last reservation")
		require.GreaterOrEqual(t, take(t, t.l, "k", 1).RetryAfter, last)
		for _, i := range []int{0, 5, 3, 1, 4} {
			refund(t, t.l, rs[i])
		}
		require.Zero(t, mustPeek(t, t.l, "k").Remaining)
		time.Sleep(2 * time.Minute)
		require.EqualValues(t, 10, mustPeek(t, t.l, "k").Remaining)
	})
}

func TestReservationsAreBounded(t *testing.T) {
	t.Parallel()
	inBubbles(t, slices.Delete(ratelimit.Every(1, time.Second), 2, 3), func(t bubble) { // of a bucket a place is a number
		granted := 0
		for range 1000 {
			granted += int(reserve(t, t.l, 1, -1).Permits)
		}
		require.LessOrEqual(t, granted, 6)
		require.GreaterOrEqual(t, granted, 3)
	})
}

// A reservation that is given back leaves nothing, whatever was skipped for it.
func TestReservationGivenBackLeavesNothing(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{
		ratelimit.FixedWindow(10, time.Minute),
		ratelimit.PerHour(10).And(ratelimit.TokenBucket(10, time.Second, 10)),
		ratelimit.TokenBucket(10, time.Second, 10).And(ratelimit.FixedWindow(10, time.Hour)),
		ratelimit.SlidingLog(10, time.Hour).And(ratelimit.TokenBucket(10, time.Minute, 20)),
	}, func(t bubble) {
		first := take(t, t.l, "k", 6)
		second := reserve(t, t.l, 6, -1)
		require.Positive(t, second.Wait)
		time.Sleep(time.Millisecond)
		require.EqualValues(t, 4, refund(t, t.l, second).Remaining)
		refund(t, t.l, first)
		require.True(t, take(t, t.l, "k", 10).Allowed)
	})
}

// Idle keys go when there is no room, and never one that somebody waits for.
func TestEvictionOfIdleKeys(t *testing.T) {
	t.Parallel()
	for _, limit := range ratelimit.Every(1, time.Minute) {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: limit, MaxKeys: 100, MaxWait: -1})
				flood := func(name string) {
					for i := range 500 {
						take(t, l, fmt.Sprint(name, i), 1)
					}
				}
				flood("idle")
				time.Sleep(time.Hour) // all of them have got all back
				take(t, l, "k", 1)
				due := take(t, l, "k", 1).RetryAfter
				first := waitAt(t.Context(), l, 1)
				flood("more")
				require.LessOrEqual(t, l.Stats().Keys, 107, "idle ones have gone")
				time.Sleep(due - 1)
				require.Empty(t, first)
				w := <-first
				require.NoError(t, w.err)
				require.Equal(t, due, w.took, "it was not forgotten, and not made to wait longer")
				require.False(t, take(t, l, "k", 1).Allowed)
				time.Sleep(time.Hour)
				require.True(t, take(t, l, "idle1", 1).Allowed, "as new")
			})
		})
	}
}

// evict takes of other keys until a limiter with MaxKeys 1 has dropped the keys that were there.
func evict(t *testing.T, l *ratelimit.Limiter) {
	t.Helper()
	for i := range 3 {
		take(t, l, fmt.Sprint("other", i), ratelimittest.Capacity(l.Config().Limit))
	}
	require.Positive(t, l.Stats().Evicted)
}

func TestEvictedCounter(t *testing.T) {
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

func TestEvictedKeyUnderAlignedWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{
			Limit: ratelimit.PerMinute(10), Limits: map[string]ratelimit.Limit{"day": ratelimit.AlignedWindow(10, 24*time.Hour)}, MaxKeys: 1,
		})
		day := l.Under("day")
		time.Sleep(60 * time.Hour)
		require.True(t, take(t, l, "k", 10).Allowed)
		evict(t, l)
		time.Sleep(time.Second)
		r := take(t, day, "k", 1)
		require.False(t, r.Allowed)
		require.Equal(t, 12*time.Hour-time.Second, r.RetryAfter)
	})
}

// Neither a limiter that only its metrics look at, nor one that is idle for days and then
// is called once, keeps what was taken.
func TestRecoveredKeysAreDropped(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*ratelimit.Limiter) error{
		"stats":  func(*ratelimit.Limiter) error { return nil },
		"take":   func(l *ratelimit.Limiter) error { _, err := l.Take(context.Background(), "one", 1); return err },
		"wait":   func(l *ratelimit.Limiter) error { _, err := l.Wait(context.Background(), "one", 1); return err },
		"reset":  func(l *ratelimit.Limiter) error { return l.Reset(context.Background(), "one") },
		"denied": func(l *ratelimit.Limiter) error { _, err := l.Take(context.Background(), "one", 50); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pause := range []time.Duration{2 * time.Minute, 3 * 24 * time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(10, time.Second, 20)})
					for i := range 2_000 {
						_, err := l.Take(t.Context(), fmt.Sprint(i), 1)
						require.NoError(t, err)
					}
					require.Equal(t, 2_000, l.Stats().Keys)
					time.Sleep(pause)
					require.NoError(t, call(l))
					require.LessOrEqual(t, l.Stats().Keys, 1)
				})
			}
		})
	}
}
