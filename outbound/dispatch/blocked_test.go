package dispatch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestManyCallsOfAnAccountThatIsProbedBlockNoOtherAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScript(answer{0, limitedAccount(10 * time.Second)}, answer{after: 50 * time.Second})
		d := newDispatcher(t, config{Capacity: 8, Account: ownAccount})
		keys := make([]string, 250)
		for i := range keys {
			keys[i] = "a"
		}
		var wg sync.WaitGroup
		wg.Go(func() { calls(t, d, s, keys...) })
		time.Sleep(12 * time.Second) // the probe runs
		start := time.Now()
		calls(t, d, newScript(), "b")
		require.Less(t, time.Since(start), 100*time.Millisecond)
		wg.Wait()
		require.Less(t, time.Since(start), time.Minute)
	})
}
