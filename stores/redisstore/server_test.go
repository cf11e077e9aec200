package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
)

// A server is a redis-server of a test.
type server struct{ *redisserver.Server }

// startServer starts a redis-server on a port of its own, which ends with the test.
func startServer(tb testing.TB, args ...string) server {
	tb.Helper()
	s, err := redisserver.Start(tb.TempDir(), args...)
	require.NoError(tb, err)
	tb.Cleanup(s.Kill)
	return server{s}
}

func (s server) client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opt := &redis.Options{Addr: s.Addr}
	for _, f := range change {
		f(opt)
	}
	c := redis.NewClient(opt)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// patient is a Timeout for tests that share a machine.
const patient = 10 * time.Second

func newStore(tb testing.TB, client redis.UniversalClient, cfg Config) *Store {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = patient
	}
	s, err := New(client, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func open(tb testing.TB, s ratelimit.Store, name string) ratelimit.Table {
	tb.Helper()
	table, err := s.Open(name)
	require.NoError(tb, err)
	return table
}

func take(tb testing.TB, t ratelimit.Table, key string, l ratelimit.Limit, n int64) ratelimit.Result {
	tb.Helper()
	id, err := t.Plan(l)
	require.NoError(tb, err)
	r, err := t.Apply(context.Background(), key, id, ratelimit.Op{Cost: n})
	require.NoError(tb, err)
	return r
}
