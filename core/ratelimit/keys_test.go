package ratelimit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

// Idle keys go when there is no room, and never one that somebody waits for.
func TestIdleKeysGoAndThoseInUseStay(t *testing.T) {
	t.Parallel()
	for _, limit := range every(1, time.Minute) {
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

func TestKeysAreSharedAndResetAlone(t *testing.T) {
	t.Parallel()
	inBubbles(t, every(2, time.Hour), func(t bubble) {
		l := t.l
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 2 {
					granted.Add(take(t, l, "a", 1).Permits)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 2, granted.Load(), "one key, whoever asks")
		require.True(t, take(t, l, "b", 2).Allowed)
		require.NoError(t, l.Reset(t.Context(), "a"))
		require.True(t, take(t, l, "a", 2).Allowed)
		require.False(t, take(t, l, "b", 1).Allowed)
	})
}
