package resiltest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/resiltest"
)

func leak(until chan struct{}) { <-until }

func TestGoroutinesFailsTheTestWhenOneIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb, end := &fakeTB{}, make(chan struct{})
		resiltest.Goroutines(tb)
		go func() { go leak(end) }() // whose parent is gone
		synctest.Wait()
		start := time.Now()
		failures := tb.end()
		require.Len(t, failures, 1)
		require.Contains(t, failures[0], "resiltest_test.leak")
		require.GreaterOrEqual(t, time.Since(start), resiltest.Patience)
		close(end)
	})
}

func TestGoroutinesOfOthersDoNotCount(t *testing.T) {
	t.Parallel()
	end, started, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() { // another test
		close(started)
		for {
			select {
			case <-stop:
				return
			default:
				go leak(end)
			}
			<-started
			<-stop
		}
	}()
	<-started
	tb := &fakeTB{}
	resiltest.Goroutines(tb)
	require.Empty(t, tb.end())
	close(stop)
	close(end)
}
