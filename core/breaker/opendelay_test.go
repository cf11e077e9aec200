package breaker_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
)

func TestOpenDelayIsToldItsOwnLastAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		initial breaker.State
		open    func(*testing.T, *breaker.Breaker)
		want    []string
	}{
		{"after a Retry-After", breaker.Closed, func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			p := acquire(t, b)
			p.Failed(time.Hour)
		}, []string{"1 0s", "2 1s", "3 2s"}},
		{"after OpenFor", breaker.Closed, func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			require.NoError(t, b.OpenFor(time.Hour))
		}, []string{"2 0s", "3 2s"}},
		{"after OpenFor while open", breaker.Closed, func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			run(t, b, "F")
			require.NoError(t, b.OpenFor(time.Hour))
		}, []string{"1 0s", "2 1s", "3 2s"}},
		{"initially open", breaker.Open, func(*testing.T, *breaker.Breaker) {}, []string{"1 0s", "2 1s", "3 2s"}},
		{"closed meanwhile", breaker.Closed, func(t *testing.T, b *breaker.Breaker) {
			t.Helper()
			run(t, b, "F")
			b.Reset()
			run(t, b, "F")
		}, []string{"1 0s", "1 0s", "2 1s", "3 2s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				b := newBreaker(t, breaker.Config{
					Window: 1, Trials: 1, Initial: tt.initial,
					OpenDelay: backoff.Func(func(n int, prev time.Duration) time.Duration {
						asked = append(asked, fmt.Sprint(n, " ", prev))
						return time.Duration(n) * time.Second
					}),
				})
				tt.open(t, b)
				time.Sleep(time.Hour + time.Second) // the jitter of a function is a part of its result
				run(t, b, "F")
				time.Sleep(time.Hour)
				run(t, b, "F")
				require.Equal(t, tt.want, asked)
			})
		})
	}
}

func TestOpenDelayIsCalledOnceForOneOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		b := newBreaker(t, breaker.Config{Window: 1, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
			asked.Add(1)
			return time.Minute
		})})
		permits := make([]breaker.Permit, 20)
		for i := range permits {
			permits[i] = acquire(t, b) // all of them, before the first failure opens the breaker
		}
		var all sync.WaitGroup
		for _, p := range permits {
			all.Go(func() { p.Failed(time.Hour) })
		}
		all.Wait()
		require.EqualValues(t, 1, asked.Load())
		s := b.Stats()
		require.Equal(t, []uint64{1, 1, 19}, []uint64{s.Opened, s.Failures, s.Late})
		openFor := b.Snapshot().OpenFor
		require.GreaterOrEqual(t, openFor, time.Hour, "as long as the failure asks for")
		require.Less(t, openFor, time.Hour+time.Minute, "and at most what OpenDelay returned on top")
		b.Reset()
		run(t, b, "F")
		require.EqualValues(t, 2, asked.Load())
		require.Equal(t, time.Minute, b.Snapshot().OpenFor)
	})
}

func TestAGroupThatIsInitiallyOpenCallsOpenDelayForEachNewBreaker(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	g := newGroup(t, breaker.Config{Initial: breaker.Open, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
		asked.Add(1)
		return time.Minute
	})}, 1)
	require.EqualValues(t, 1, asked.Swap(0), "for Overflow")
	require.NoError(t, g.Get("a").SetState(breaker.Open))
	require.EqualValues(t, 1, asked.Swap(0))
	require.Same(t, g.Overflow(), g.Get("b"))
	require.Zero(t, asked.Load(), "there is no room for b")
	require.NoError(t, g.Get("a").SetState(breaker.Closed))
	require.Equal(t, "b", g.Get("b").Key())
	require.EqualValues(t, 1, asked.Load())
	refused(t, g.Get("b"))
}

func TestATripIsNoShorterThanWhatWouldHappenAnyway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Window: 2, Trials: 4, OpenDelay: backoff.Linear{Delay: 10 * second, Jitter: -1}, Registry: j.changes()})
		trip := func(d time.Duration) {
			p := acquire(t, b)
			p.Trip(d)
		}
		run(t, b, "S")
		trip(second) // with which half of the window failed
		for _, d := range []time.Duration{second, 25 * second, time.Hour} {
			time.Sleep(rejected(t, b).RetryAfter())
			trip(d)
		}
		b.Reset()
		trip(second)
		require.Equal(t, []string{
			"closed>open n=1 for 10s",
			"open>half_open n=1", "half_open>open n=2 for 20s",
			"open>half_open n=2", "half_open>open n=3 for 30s",
			"open>half_open n=3", "half_open>open n=4 for 1h0m0s",
			"reset", "open>closed manual", "closed>open n=1 for 1s",
		}, j.take(), "the last one by itself: exactly so long")
	})
}
