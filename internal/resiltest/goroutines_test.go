package resiltest_test

import (
	"net/http"
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

func TestGoroutinesWaitsForThoseThatAreEnding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb, end := &fakeTB{}, make(chan struct{})
		resiltest.Goroutines(tb)
		go leak(end)
		time.AfterFunc(time.Second, func() { close(end) })
		require.Empty(t, tb.end())
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

func TestGoroutinesOfAServerEndWithIt(t *testing.T) {
	t.Parallel()
	tb := &fakeTB{}
	resiltest.Goroutines(tb)
	srv := resiltest.NewServer(tb, resiltest.NewScript(resiltest.Reply{Reset: true}, resiltest.Reply{Body: "x"}))
	for range 10 {
		resp, err := srv.Transport().RoundTrip(request(t.Context(), t, http.MethodPut, srv.URL, "order"))
		if err == nil {
			require.NoError(t, resp.Body.Close())
		}
	}
	require.Empty(t, tb.end())
}
