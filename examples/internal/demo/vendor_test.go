package demo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStallOfProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Stall
		go s.Watch(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, s.Duration(), "its timers are exact")
	})
}
