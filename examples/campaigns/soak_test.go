//go:build soak

package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/internal/redisserver"
)

// TestSoakCampaigns: 20 campaigns of 100,000 calls from 4 processes, one of which is killed on the way,
// and the article's algorithm beside it.
func TestSoakCampaigns(t *testing.T) {
	r := repeated(t, 4000, func(cps int) result {
		return runBinary(t.Context(), t, io.Discard, "-calls 100000 -cps %d -kill 1", cps)
	})
	t.Log(r.Stdout)
	requireServed(t, r)
	require.LessOrEqual(t, r.Elapsed, 1.15*r.Ideal+r.Stood)
	require.Equal(t, 1, r.Deaths)
	requireOnce(t, r.verdict(), r)
}

// TestSoakCampaignsOfOneWorker: the limit is in memory.
func TestSoakCampaignsOfOneWorker(t *testing.T) {
	r := repeated(t, 200, func(cps int) result {
		return runBinary(t.Context(), t, io.Discard, "-campaigns 3 -calls 1000 -workers 1 -cps %d", cps)
	})
	requireServed(t, r)
	require.LessOrEqual(t, r.Elapsed, 1.25*r.Ideal+r.Stood)
}

// TestSoakControls: the article's algorithm takes two minutes more than the ideal, and is above the
// limit all the same.
func TestSoakControls(t *testing.T) {
	for _, algorithm := range []string{"article", "naive"} {
		r := runBinary(t.Context(), t, io.Discard, "-cps 1500 -algorithm %s", algorithm)
		t.Log(r.Stdout)
		require.Zero(t, r.Code)
		require.Greater(t, program.Value(r.MostSliding), 1500.0)
		require.Equal(t, 20_000, r.Served)
		if algorithm == "article" {
			require.Greater(t, r.Elapsed, 60.0)
			require.Greater(t, r.Checks, 1.2)
		}
	}
}

// TestSoakCampaignsOnAsynq: a worker is killed, and its jobs run again within two minutes.
func TestSoakCampaignsOnAsynq(t *testing.T) {
	r := repeated(t, 1500, func(cps int) result {
		return runBinary(t.Context(), t, io.Discard, "-cps %d -engine asynq -kill 1", cps)
	})
	t.Log(r.Stdout)
	require.Zero(t, r.Code, r.Stdout)
	require.Equal(t, 1, r.Deaths)
	require.Equal(t, 20_000, r.Served)
	require.Zero(t, r.Retried)
	require.InDelta(t, 1, r.Runs, 0.05)
	require.Less(t, r.Elapsed, r.Ideal+150)
	requireOnce(t, r.verdict(), r)
}

// TestSoakCampaignsOnAsynqAfterARestartOfRedis: Redis is killed on the way, and starts again with its file.
func TestSoakCampaignsOnAsynqAfterARestartOfRedis(t *testing.T) {
	redis, err := redisserver.Start(t.TempDir(), "--appendonly", "yes", "--appendfsync", "always")
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	runs := make(chan result, 1)
	go func() {
		runs <- runBinary(t.Context(), t, io.Discard, "-calls 300 -workers 2 -cps 300 -engine asynq -redis %s", redis.Addr)
	}()
	time.Sleep(8 * time.Second)
	redis.Kill()
	time.Sleep(time.Second)
	require.NoError(t, redis.Restart())
	r := <-runs
	t.Log(r.Stdout)
	require.NotEqual(t, 1, r.Code, r.Stdout) // 3: the machine stalled
	require.Equal(t, 6000, r.Served)
	require.Zero(t, r.Retried)
	require.InDelta(t, 1, r.Runs, 0.05)
	require.Less(t, r.Elapsed, r.Ideal+150)
}
