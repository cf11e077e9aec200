package announce_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/announce"
)

func TestDrainKeepsOrderWhenToldCallsBack(t *testing.T) {
	t.Parallel()
	var q announce.Queue
	var got []int
	var tell func(int)
	tell = func(n int) {
		got = append(got, n)
		if n < 3 {
			q.Append(func() { tell(n + 1) })
			q.Drain() // only appends: the outer call tells it
			require.Equal(t, n, got[len(got)-1])
		}
	}
	q.Append(func() { tell(1) })
	q.Drain()
	require.Equal(t, []int{1, 2, 3}, got)
}

func TestDrainGoesOnAfterPanicAndGoexit(t *testing.T) {
	t.Parallel()
	var q announce.Queue
	var got []int
	tell := func(n int) {
		got = append(got, n)
		switch n {
		case 1:
			panic("told one")
		case 2:
			runtime.Goexit()
		}
	}
	for n := 1; n <= 3; n++ {
		q.Append(func() { tell(n) })
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = recover() }()
		q.Drain()
	})
	wg.Wait()
	require.Equal(t, []int{1, 2, 3}, got)
}

func TestDrainOrderIsThatOfAppendsUnderLoad(t *testing.T) {
	t.Parallel()
	var (
		q    announce.Queue
		mu   sync.Mutex
		next int
		told []int
		wg   sync.WaitGroup
	)
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				mu.Lock()
				n := next
				q.Append(func() { told = append(told, n) }) // one announcer at a time: no lock needed
				next++
				mu.Unlock()
				q.Drain()
			}
		})
	}
	wg.Wait()
	require.Len(t, told, 8000)
	for i, n := range told {
		require.Equal(t, i, n)
	}
}
