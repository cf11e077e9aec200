package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

func openMemory(t *testing.T) ratelimit.Store {
	t.Helper()
	m, err := ratelimit.NewMemory(0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{Open: openMemory, Bubble: synctest.Test})
}

func TestSlowStoreConforms(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			return &ratelimittest.Slow{Store: openMemory(t), Delay: time.Millisecond}
		},
		Bubble: synctest.Test,
		Unit:   time.Minute,
		Slack:  time.Second,
	})
}

// A constructor returns a nil pointer together with an error.
func TestStoreIsANilPointer(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.New(ratelimit.Config{Name: "l", Store: (*switchedStore)(nil)})
	require.EqualError(t, err, "ratelimit.Config.Store = a nil pointer: must be a store, or nil for state in memory")
}

// What a store does about its own updates is its affair; here it fails for good.
func TestStoreFailsWithDeny(t *testing.T) {
	t.Parallel()
	store := &ratelimittest.Failing{Store: openMemory(t)}
	l := newLimiter(t, ratelimit.Config{Store: store, OnStoreError: ratelimit.Deny})
	store.Down()
	for name, op := range map[string]func() (ratelimit.Result, error){
		"Take":       func() (ratelimit.Result, error) { return l.Take(t.Context(), "k", 1) },
		"TakeAtMost": func() (ratelimit.Result, error) { return l.TakeAtMost(t.Context(), "k", 1) },
		"Wait":       func() (ratelimit.Result, error) { return l.Wait(t.Context(), "k", 1) },
		"Reserve":    func() (ratelimit.Result, error) { return l.Reserve(t.Context(), "k", 1, time.Second) },
	} {
		r, err := op()
		require.ErrorIs(t, err, ratelimit.ErrStore, name)
		require.ErrorIs(t, err, ratelimittest.ErrDown, name)
		require.Zero(t, r, name)
	}
	require.EqualValues(t, 4, l.Stats().StoreErrors)
	require.Zero(t, l.Stats().Allowed)
}

// Idle keys go when there is no room, and never one that somebody waits for.
func TestEvictionOfIdleKeys(t *testing.T) {
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

// evict takes of other keys until a limiter with MaxKeys 1 has dropped the keys that were there.
func evict(t *testing.T, l *ratelimit.Limiter) {
	t.Helper()
	for i := range 3 {
		take(t, l, fmt.Sprint("other", i), limits.Limit(l.Config().Limit).Capacity())
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
