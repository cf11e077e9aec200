package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

func TestADeadlineThatIsTooShortIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(10, time.Second, 3)}, func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 2).Allowed)
		for deadline, want := range map[time.Duration]error{100 * ms: ratelimit.ErrLimited, 200*ms - 1: ratelimit.ErrLimited} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			w := <-waitAt(ctx, l, 3)
			require.ErrorIs(t, w.err, want)
			require.Zero(t, w.took)
			cancel()
		}
		require.EqualValues(t, 1, mustPeek(t, l, "k").Remaining)
	})
}

// What was taken stays taken, in permits; waiters are served at the new rate.
func TestSetLimitWithWaiters(t *testing.T) {
	t.Parallel()
	const d = 100 * ms
	inBubbles(t, []ratelimit.Limit{ratelimit.TokenBucket(5, time.Second, 2)}, func(t bubble) {
		l := t.l
		require.True(t, take(t, l, "k", 2).Allowed)
		first := waitAt(t.Context(), l, 2) // for t4
		second := waitAt(t.Context(), l, 2)
		time.Sleep(2 * d)
		ratelimittest.SetLimit(t, l, ratelimit.TokenBucket(10, time.Second, 2))
		third := waitAt(t.Context(), l, 1)
		require.Equal(t, 3*d, (<-first).took, "one permit is still used")
		require.Equal(t, 5*d, (<-second).took, "at the new rate; at the old one it were 8d")
		require.Equal(t, 4*d, (<-third).took, "from 2d to 6d, behind both")
	})
}

func TestShapers(t *testing.T) {
	t.Parallel()
	const s = time.Second
	// starts are the times at which busy callers are served, up to a time.
	starts := func(t *testing.T, limit ratelimit.Limit, callers int, until time.Duration) []time.Duration {
		t.Helper()
		l := newLimiter(t, ratelimit.Config{Limit: limit, MaxWait: -1})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var all []time.Duration
		var wg sync.WaitGroup
		start := time.Now()
		for range callers {
			wg.Go(func() {
				for {
					if _, err := l.Wait(ctx, "k", 1); err != nil {
						return
					}
					mu.Lock()
					all = append(all, time.Since(start))
					mu.Unlock()
				}
			})
		}
		sleepTo(start, until)
		synctest.Wait()
		cancel()
		wg.Wait()
		return all
	}
	count := func(all []time.Duration, until time.Duration) (n int) {
		for _, at := range all {
			if at <= until {
				n++
			}
		}
		return n
	}
	t.Run("100 a second, 4 callers", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := starts(t, ratelimit.TokenBucket(100, s, 1), 4, 3*s)
			for i, at := range all {
				require.Equal(t, time.Duration(i)*10*ms, at)
			}
			for n := 1; n <= 3; n++ {
				require.Equal(t, 100*n, count(all, time.Duration(n)*s-1))
			}
		})
	})
	t.Run("7 a minute", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			all := starts(t, ratelimit.TokenBucket(7, time.Minute, 1), 2, 2*time.Minute)
			require.Equal(t, []int{1, 7, 8, 14, 15}, []int{count(all, s), count(all, 60*s-1), count(all, 60*s), count(all, 120*s-1), count(all, 120*s)})
		})
	})
	t.Run("three at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, []time.Duration{0, 100 * ms, 200 * ms}, starts(t, ratelimit.TokenBucket(10, s, 1), 3, 299*ms))
		})
	})
	t.Run("a slack of one", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1, s, 2), MaxWait: -1})
			start := time.Now()
			sleepTo(start, 1)
			require.True(t, take(t, l, "k", 1).Allowed)
			sleepTo(start, 2*s+1)
			var at []time.Duration
			for range 4 {
				_, err := l.Wait(t.Context(), "k", 1)
				require.NoError(t, err)
				at = append(at, time.Since(start))
			}
			require.Equal(t, []time.Duration{2*s + 1, 2*s + 1, 3*s + 1, 4*s + 1}, at, "3 by 3s, 5 by 10s")
		})
	})
}
