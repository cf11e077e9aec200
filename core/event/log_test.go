package event_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/event"
)

// since collects what Since yields, and checks that each event is its own id.
func since(t *testing.T, l *event.Log[uint64], id uint64) (ids []uint64) {
	t.Helper()
	for i, e := range l.Since(id) {
		require.Equal(t, i, e)
		ids = append(ids, i)
	}
	return ids
}

func TestSinceAtEveryFill(t *testing.T) {
	t.Parallel()
	for capacity := 1; capacity <= 5; capacity++ {
		l := core.Must(event.New[uint64](capacity))
		require.Zero(t, l.Last())
		require.Empty(t, since(t, l, 0))
		for n := uint64(1); n <= 13; n++ {
			require.Equal(t, n, l.Add(n))
			require.Equal(t, n, l.Last())
			oldest := uint64(max(1, int(n)-capacity+1))
			require.Equal(t, oldest-1, l.Dropped())
			for id := range n + 3 {
				var want []uint64
				for i := max(id+1, oldest); i <= n; i++ {
					want = append(want, i)
				}
				require.Equal(t, want, since(t, l, id), "capacity %d, %d events, since %d", capacity, n, id)
			}
		}
	}
}

func TestCapacityBelowOne(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{0, -1} {
		l, err := event.New[int](capacity)
		require.Nil(t, l)
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, core.ConfigError{Field: "event.New.capacity", Value: capacity, Reason: "must be >= 1"}, *bad)
	}
}

// Iterating holds no lock, and goes over what there was when it was asked for.
func TestReaderMayAddAndStop(t *testing.T) {
	t.Parallel()
	l := core.Must(event.New[uint64](3))
	for n := range uint64(3) {
		l.Add(n + 1)
	}
	seq := l.Since(0)
	for range 2 { // an iterator may be used again
		var seen []uint64
		for id, e := range seq {
			require.Equal(t, id, e)
			seen = append(seen, e)
			l.Add(l.Last() + 1)
		}
		require.Equal(t, []uint64{1, 2, 3}, seen)
	}
	require.Equal(t, []uint64{7, 8, 9}, since(t, l, 0))
	for id := range l.Since(0) {
		require.EqualValues(t, 7, id)
		break
	}
}

func TestReadersMissNothingThatIsNotDropped(t *testing.T) {
	t.Parallel()
	l := core.Must(event.New[uint64](64))
	var mu sync.Mutex // makes each event its id
	var wg sync.WaitGroup
	const writers, each = 4, 2000
	for range writers {
		wg.Go(func() {
			for range each {
				mu.Lock()
				l.Add(l.Last() + 1)
				mu.Unlock()
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for seen := uint64(0); seen < writers*each; {
				next := uint64(0)
				for id, e := range l.Since(seen) {
					if e != id || next != 0 && id != next || id <= seen {
						t.Errorf("event %d has id %d, after %d, want %d", e, id, seen, next)
						return
					}
					seen, next = id, id+1
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, writers*each-64, l.Dropped())
}

//nolint:paralleltest // counts allocations
func TestAddToAFullLogAllocatesNothing(t *testing.T) {
	l := core.Must(event.New[uint64](64))
	var before, after runtime.MemStats
	for i := range uint64(20_000) {
		if i == 10_000 {
			runtime.ReadMemStats(&before)
		}
		l.Add(i)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(100))
}

func BenchmarkAdd(b *testing.B) {
	l := core.Must(event.New[uint64](1024))
	b.ReportAllocs()
	for b.Loop() {
		l.Add(1)
	}
}

// A ring of a fixed size is read from the oldest to the newest.
func TestTheRingIsReadInTheOrderOfAge(t *testing.T) {
	t.Parallel()
	l := core.Must(event.New[uint64](3))
	for n := range uint64(5) {
		l.Add(n + 1)
	}
	require.Equal(t, []uint64{3, 4, 5}, since(t, l, 0))
	require.EqualValues(t, 2, l.Dropped())
}
