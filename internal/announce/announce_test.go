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
	var q announce.Queue[int]
	var got []int
	var tell func(int)
	tell = func(n int) {
		got = append(got, n)
		if n < 3 {
			q.Append(n + 1)
			q.Drain(tell) // only appends: the outer call tells it
			require.Equal(t, n, got[len(got)-1])
		}
	}
	q.Append(1)
	q.Drain(tell)
	require.Equal(t, []int{1, 2, 3}, got)
}

func TestDrainGoesOnAfterPanicAndGoexit(t *testing.T) {
	t.Parallel()
	var q announce.Queue[int]
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
	q.Append(1)
	q.Append(2)
	q.Append(3)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() { _ = recover() }()
		q.Drain(tell)
	})
	wg.Wait()
	require.Equal(t, []int{1, 2, 3}, got)
}

func TestDrainOrderIsThatOfAppendsUnderLoad(t *testing.T) {
	t.Parallel()
	var (
		q    announce.Queue[int]
		mu   sync.Mutex
		next int
		told []int
		wg   sync.WaitGroup
	)
	tell := func(n int) { told = append(told, n) } // one announcer at a time: no lock needed
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				mu.Lock()
				q.Append(next)
				next++
				mu.Unlock()
				q.Drain(tell)
			}
		})
	}
	wg.Wait()
	require.Len(t, told, 8000)
	for i, n := range told {
		require.Equal(t, i, n)
	}
}
