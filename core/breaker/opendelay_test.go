package breaker_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
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
				time.Sleep(time.Hour)
				run(t, b, "F")
				time.Sleep(time.Hour)
				run(t, b, "F")
				require.Equal(t, tt.want, asked)
			})
		})
	}
}

func TestOpenDelayIsAskedOnceForOneOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		b := newBreaker(t, breaker.Config{Window: 1, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
			asked.Add(1)
			time.Sleep(second)
			return time.Minute
		})})
		var all sync.WaitGroup
		for i := range 20 {
			p := acquire(t, b)
			all.Go(func() { p.Failed(time.Duration(i) * time.Hour) })
		}
		all.Wait()
		require.EqualValues(t, 1, asked.Load())
		s := b.Stats()
		require.EqualValues(t, 1, s.Opened)
		require.EqualValues(t, 20, s.Failures)
		require.Equal(t, 19*time.Hour, b.Snapshot().OpenFor, "as long as any of them asks for")
		b.Reset()
		run(t, b, "F")
		require.EqualValues(t, 2, asked.Load())
		require.Equal(t, time.Minute, b.Snapshot().OpenFor)
	})
}

func TestOpenDelayMayLookAtItsBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		asked := 0
		b = newBreaker(t, breaker.Config{
			Window: 1, MaxHalfOpen: time.Second,
			OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
				asked++
				b.Snapshot()
				return time.Minute
			}),
		})
		run(t, b, "F")
		time.Sleep(time.Minute)
		require.Equal(t, breaker.HalfOpen, b.State())
		time.Sleep(time.Second)
		require.Equal(t, breaker.Open, b.State())
		require.Equal(t, 2, asked)
	})
}

func TestAStateSetWhileOpenDelayIsAskedStands(t *testing.T) {
	t.Parallel()
	for _, state := range []breaker.State{breaker.Open, breaker.ForcedOpen, breaker.Disabled} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32 // a sync.Once would wait for the first
				b := newBreaker(t, breaker.Config{Window: 1, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
					if asked.Add(1) == 1 {
						time.Sleep(time.Second)
						return time.Hour
					}
					return time.Minute
				})})
				go run(t, b, "F")
				synctest.Wait()
				require.NoError(t, b.SetState(state))
				before := b.Snapshot()
				require.Equal(t, state, before.State)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, before, b.Snapshot())
			})
		})
	}
}

func TestAnOpenDelayThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		initial breaker.State
		open    func(*breaker.Breaker, breaker.Permit)
		told    string
	}{
		"closed":          {breaker.Closed, func(_ *breaker.Breaker, p breaker.Permit) { p.Done(core.Failure) }, "closed>open n=1 for 1m0s"},
		"half-open":       {breaker.HalfOpen, func(_ *breaker.Breaker, p breaker.Permit) { p.Failed(second) }, "half_open>open n=2 for 1m0s"},
		"half-open, long": {breaker.HalfOpen, func(_ *breaker.Breaker, p breaker.Permit) { p.Failed(time.Hour) }, "half_open>open n=2 for 1h0m0s"},
		"by hand":         {breaker.Closed, func(b *breaker.Breaker, _ breaker.Permit) { _ = b.SetState(breaker.Open) }, "closed>open manual n=1 for 1m0s"},
		"half-open too long": {breaker.HalfOpen, func(b *breaker.Breaker, _ breaker.Permit) {
			time.Sleep(time.Hour)
			b.State()
		}, "half_open>open n=2 for 1m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var j journal
			b := newBreaker(t, breaker.Config{
				Window: 1, Trials: 1, MaxHalfOpen: time.Hour, Initial: c.initial, Hooks: j.changes(),
				OpenDelay: backoff.Func(func(int, time.Duration) time.Duration { runtime.Goexit(); return 0 }),
			})
			var all sync.WaitGroup
			p := acquire(t, b)
			all.Go(func() { c.open(b, p) })
			all.Wait()
			require.Equal(t, []string{c.told}, j.take(), name)
			time.Sleep(rejected(t, b).RetryAfter())
			run(t, b, "S")
			require.Equal(t, breaker.Closed, b.State(), name)
		})
	}
}

func TestAGroupThatIsInitiallyOpenAsksOpenDelayWithoutItsLock(t *testing.T) {
	t.Parallel()
	var g *breaker.Group
	var asked atomic.Int32
	cfg := breaker.Config{Initial: breaker.Open, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
		asked.Add(1)
		if g != nil {
			g.Stats()
			g.Get("a")
		}
		return time.Minute
	})}
	made := newGroup(t, cfg, 1)
	require.EqualValues(t, 1, asked.Swap(0), "for Overflow")
	require.NoError(t, made.Get("a").SetState(breaker.Open))
	require.EqualValues(t, 1, asked.Swap(0))
	g = made
	require.Same(t, g.Overflow(), g.Get("b"))
	require.Zero(t, asked.Load(), "there is no room to ask for")
	require.NoError(t, g.Get("a").SetState(breaker.Closed))
	require.Equal(t, "b", g.Get("b").Key())
	refused(t, g.Get("b"))
}

// TestTheLongestTimeThatIsAskedForHolds has others come while OpenDelay is asked for a
// failure that asks for an hour.
func TestTheLongestTimeThatIsAskedForHolds(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(b *breaker.Breaker, p breaker.Permit){
		"trip": func(_ *breaker.Breaker, p breaker.Permit) { p.Trip(2 * second) },
		"trip after a success": func(b *breaker.Breaker, p breaker.Permit) {
			if b.State() == breaker.Closed { // half of the window failed: not reached
				run(t, b, "S")
			}
			p.Trip(2 * second)
		},
		"by hand": func(b *breaker.Breaker, _ breaker.Permit) { _ = b.SetState(breaker.Open) },
	} {
		for initial, rate := range map[breaker.State]float64{breaker.Closed: 0.6, breaker.HalfOpen: 0.5} {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				b := newBreaker(t, breaker.Config{Window: 2, MinCalls: 1, FailureRate: rate, Trials: 2, Initial: initial, OpenDelay: backoff.Func(func(int, time.Duration) time.Duration {
					if asked.Add(1) == 1 {
						time.Sleep(second)
					}
					return time.Minute
				})})
				first, other := acquire(t, b), acquire(t, b)
				go first.Failed(time.Hour)
				synctest.Wait()
				meanwhile(b, other)
				time.Sleep(second)
				synctest.Wait()
				s := b.Snapshot()
				require.Equal(t, breaker.Open, s.State, name)
				require.Equal(t, time.Hour, s.OpenFor, name)
				require.EqualValues(t, 1, b.Stats().Opened, name)
			})
		}
	}
}

func TestATripIsNoShorterThanWhatWouldHappenAnyway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		b := newBreaker(t, breaker.Config{Window: 2, Trials: 4, OpenDelay: backoff.Linear{Initial: 10 * second}, Hooks: j.changes()})
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
