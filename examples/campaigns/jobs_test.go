package main

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/outbound/jobs"
)

// A worker that was killed has left a job that is active: the queue is removed nevertheless.
func TestTheQueueOfARunIsRemoved(t *testing.T) {
	t.Parallel()
	server, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	c := &crew{order: order{Run: "r", Redis: server.Addr, Engine: "asynq", Campaigns: 1}}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop, err := c.feeder(ctx, cancel)
	require.NoError(t, err)
	engine, client, err := c.newEngine()
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	runner, err := jobs.New(jobs.Config{Engine: engine})
	require.NoError(t, err)
	for n := range 3 {
		_, err := runner.Enqueue(ctx, c.job(n))
		require.NoError(t, err)
	}
	require.NoError(t, client.LMove(ctx, "asynq:{campaigns:r}:pending", "asynq:{campaigns:r}:active", "RIGHT", "LEFT").Err())
	require.NoError(t, client.ZAdd(ctx, "asynq:{campaigns:r}:lease", redis.Z{Score: 1, Member: c.key(0)}).Err())
	require.NoError(t, client.Set(ctx, "asynq:{campaigns:r}:processed", 1, 0).Err())
	require.NoError(t, client.Set(ctx, "asynq:{campaigns:rr}:processed", 1, 0).Err()) // of another run
	stop()
	keys, err := client.Keys(ctx, "asynq:*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{"asynq:{campaigns:rr}:processed"}, keys)
}
