package breaker_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/registry"
)

// TestChangesAreToldInOrderInAStorm is 16 goroutines with 50,000 calls each, and
// hooks that call back, block and panic.
func TestChangesAreToldInOrderInAStorm(t *testing.T) {
	t.Parallel()
	checkStorm(t, 10_000)
}

func checkStorm(t *testing.T, calls int) {
	t.Helper()
	const goroutines = 16
	var (
		b              *breaker.Breaker
		telling        sync.Mutex // TryLock only
		last           = breaker.Closed
		told, panicked uint64
		resets         int
		blocked        = make(chan struct{}) // closed while the first hook blocks
		release        = make(chan struct{})
	)
	order := func(from, to breaker.State) {
		if !telling.TryLock() {
			t.Error("told of two changes at once")
			return
		}
		defer telling.Unlock()
		if from != last || from == to {
			t.Errorf("change %d: told of %v to %v after %v", told, from, to, last)
		}
		last = to
		told++
		switch {
		case told == 10:
			close(blocked)
			<-release
		case told%1000 == 1:
			b.Snapshot() // calls back
			_ = b.SetState(breaker.ForcedOpen)
			b.Reset()
			if p, err := b.Acquire(t.Context()); err == nil {
				p.Done(core.Failure)
			}
		case told%7 == 0:
			panicked++
			panic("hook")
		}
	}
	b = newBreaker(t, breaker.Config{
		Window: 3, Trials: 2, OpenDelay: backoff.Constant{},
		OnStateChange: func(_ context.Context, c breaker.StateChange) { order(c.From, c.To) },
		Registry:      listened("circuit breaker was reset", func(registry.Event) { resets++ }),
	})
	var all sync.WaitGroup
	var running atomic.Int32
	running.Store(goroutines)
	for g := range uint64(goroutines) {
		all.Go(func() {
			defer running.Add(-1)
			r := rand.New(rand.NewPCG(3, g))
			for range calls {
				func() {
					defer func() { _ = recover() }() // of the hook
					if p, err := b.Acquire(t.Context()); err == nil {
						p.Done(pick(r, core.Success, core.Failure, core.Ignored))
					}
				}()
			}
		})
	}
	<-blocked
	for running.Load() > goroutines/2 { // the others go on while one blocks
		runtime.Gosched()
	}
	close(release)
	all.Wait()
	require.Greater(t, told, uint64(1000))
	require.Equal(t, b.State(), last)
	require.NotZero(t, resets)
	require.NotZero(t, panicked)
}

// `make soak` asks for a million.
func TestAGroupOfManyKeys(t *testing.T) { //nolint:paralleltest // it measures the heap
	manyKeys(t, 100_000)
}

// manyKeys asks for so many breakers of a group of 10,000, of which a hundred are
// open.
func manyKeys(t *testing.T, asked int) {
	t.Helper()
	const maxKeys, open = 10_000, 100
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	g := newGroup(t, breaker.Config{Window: 10, OpenDelay: backoff.Constant{Delay: 24 * time.Hour}}, maxKeys)
	kept := map[string]*breaker.Breaker{}
	before, full := heap(), uint64(0)
	for i := range asked {
		key := "host-" + strconv.Itoa(i) + ".example.com"
		b := g.Get(key)
		if i%(asked/open) == 0 {
			require.NoError(t, b.OpenFor(24*time.Hour))
			kept[key] = b
		}
		if i == maxKeys {
			full = heap() - before
		}
	}
	require.LessOrEqual(t, heap()-before, full+full/4, "all that were asked for cost what ten thousand do")
	s := g.Stats()
	require.Equal(t, []int{maxKeys, open}, []int{s.Keys, s.States[breaker.Open]})
	require.EqualValues(t, asked-maxKeys, s.Evicted)
	require.Zero(t, s.Overflowed)
	for key, b := range kept {
		require.Same(t, b, g.Get(key))
		require.Equal(t, breaker.Open, b.State())
	}
	t.Logf("%d bytes a breaker", full/maxKeys)
}
