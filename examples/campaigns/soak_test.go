//go:build soak

package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/redisserver"
)

// 20 campaigns of 100,000 calls from 4 processes, one of which is killed on the way; and three from one process, with the
// limit in memory.
func TestSoakCampaigns(t *testing.T) {
	for args, cps := range map[string]float64{"-calls 100000 -kill 1": 4000, "-campaigns 3 -calls 1000 -workers 1": 200} {
		r := repeated(t, cps, func(cps float64) demotest.Output {
			return runBinary(t.Context(), t, io.Discard, "%s -cps %g", args, cps)
		})
		t.Log(r.Stdout)
		requireServed(t, r)
		require.LessOrEqual(t, r.Num("elapsed_seconds"), 1.15*r.Num("ideal_seconds")+r.Num("stall_ms")/100) // ten such stalls
	}
}

// A worker is killed, and its jobs run again within two minutes; and Redis is killed, and starts again with its file.
func TestSoakCampaignsOnAsynq(t *testing.T) {
	check := func(r demotest.Output, served int) {
		t.Log(r.Stdout)
		require.NotEqual(t, 1, r.Code, r.Stdout) // 3: the machine stalled
		require.Equal(t, []int{served, 0}, r.Nums("served", "retried"))
		require.InDelta(t, 1, r.Num("runs_per_call"), 0.05)
		require.Less(t, r.Num("elapsed_seconds"), r.Num("ideal_seconds")+150)
	}
	check(runBinary(t.Context(), t, io.Discard, "-cps 1500 -engine asynq -kill 1"), 20_000)
	redis, err := redisserver.Start(t.TempDir(), "--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	runs := make(chan demotest.Output, 1)
	go func() {
		runs <- runBinary(t.Context(), t, io.Discard, "-calls 300 -workers 2 -cps 300 -engine asynq -redis %s", redis.Addr)
	}()
	time.Sleep(8 * time.Second)
	redis.Kill()
	time.Sleep(time.Second)
	require.NoError(t, redis.Restart())
	check(<-runs, 6000)
}
