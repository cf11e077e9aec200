package asynqjobs_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/outbound/jobs/jobstest"
)

// start starts a server of its own, and returns an engine over it.
func start(t *testing.T, cfg asynqjobs.Config, args ...string) (*asynqjobs.Engine, *redis.Client, *redisserver.Server) {
	t.Helper()
	server, err := redisserver.Start(t.TempDir(), args...)
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	engine, err := asynqjobs.New(client, cfg)
	require.NoError(t, err)
	return engine, client, server
}

func TestAsynqIsAnEngine(t *testing.T) {
	t.Parallel()
	engine, _, _ := start(t, asynqjobs.Config{})
	for name, test := range jobstest.All() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine)
		})
	}
}
