package breaker_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func TestFiftyArrivalsGetExactlyTheTrials(t *testing.T) {
	t.Parallel()
	for round := range 200 {
		b := newBreaker(t, breaker.Config{Window: 1, Trials: 7, OpenDelay: backoff.Constant{}})
		run(t, b, "F") // open, and its time is over: the arrivals themselves find that out
		var admitted, rejected atomic.Int32
		var start, all sync.WaitGroup
		start.Add(1)
		for range 50 {
			all.Go(func() {
				start.Wait()
				if _, err := b.Acquire(t.Context()); err == nil {
					admitted.Add(1)
				} else {
					rejected.Add(1)
				}
			})
		}
		start.Done()
		all.Wait()
		require.EqualValues(t, 7, admitted.Load(), "round %d", round)
		require.EqualValues(t, 43, rejected.Load())
		require.EqualValues(t, 43, b.Stats().Rejected)
	}
}

func TestNeverMoreTrialsThanSlotsWhenTheyComeAndGo(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Trials: 3, Initial: breaker.HalfOpen, TrialTimeout: -1})
	var running, most, admitted atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				p, err := b.Acquire(t.Context())
				if err != nil {
					continue
				}
				admitted.Add(1)
				for n := running.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				running.Add(-1)
				p.Done(core.Ignored)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int32(3))
	require.Greater(t, admitted.Load(), int32(3), "slots were given back")
	require.Equal(t, breaker.HalfOpen, b.State())
	require.Zero(t, b.Snapshot().TrialsRunning)
}

// TestEveryCallIsCountedOnce hammers a breaker from all sides and adds up.
func TestEveryCallIsCountedOnce(t *testing.T) {
	t.Parallel()
	var told, opened atomic.Uint64
	listening := eventtest.Registry(func(_ context.Context, e registry.Event) {
		switch {
		case e.Text == recordedText:
			told.Add(1)
		case e.Attr("to").String() == "open":
			opened.Add(1)
		}
	})
	for _, cfg := range []breaker.Config{
		{Window: 20, OpenDelay: backoff.Constant{}, Trials: 3},
		{Window: 20, OpenDelay: backoff.Constant{Delay: 10 * time.Microsecond}, Trials: 3, Registry: listening},
		{WindowTime: time.Millisecond, MinCalls: 5, OpenDelay: backoff.Constant{}, Trials: 3, MaxHalfOpen: 20 * time.Microsecond, TrialTimeout: 5 * time.Microsecond},
	} {
		b := newBreaker(t, cfg)
		told.Store(0)
		opened.Store(0)
		var done, rejected atomic.Uint64
		var all sync.WaitGroup
		for g := range uint64(8) {
			all.Go(func() {
				r := rand.New(rand.NewPCG(1, g))
				for i := range 3000 {
					if i%500 == int(g) {
						b.Reset()
					}
					p, err := b.Acquire(t.Context())
					if err != nil {
						rejected.Add(1)
						continue
					}
					outcome := core.Success
					if r.IntN(100) < i/10%100 {
						outcome = core.Failure
					}
					p.Done(outcome)
					done.Add(1)
				}
			})
		}
		all.Wait()
		s := b.Stats()
		require.Equal(t, done.Load(), s.Successes+s.Failures+s.Late)
		require.Equal(t, rejected.Load(), s.Rejected)
		require.NotZero(t, s.Opened)
		if cfg.Registry != nil {
			require.Equal(t, s.Successes+s.Failures, told.Load())
			require.Equal(t, s.Opened, opened.Load())
		}
	}
}

// TestChangesAreToldInOrder has many goroutines change the state at once.
func TestChangesAreToldInOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	last, n := breaker.Closed, 0
	b := newBreaker(t, breaker.Config{OnStateChange: func(_ context.Context, i breaker.StateChange) {
		if !mu.TryLock() {
			t.Error("told of two changes at once")
			return
		}
		defer mu.Unlock()
		if i.From != last || i.To == i.From {
			t.Errorf("told of %v to %v after %v", i.From, i.To, last)
		}
		last = i.To
		n++
	}})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 500 {
				_ = b.SetState(breaker.State((g + i) % 6))
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	require.Greater(t, n, 500)
	require.Equal(t, b.State(), last)
}
