package failover_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/failover"
	"github.com/gresil/gresil/internal/redistest"
)

func TestDo(t *testing.T) {
	t.Parallel()
	const idle = 20
	srv := redistest.Start(t)
	for name, c := range map[string]struct {
		script string // that is sent
		calls  int
		left   int // idle connections
	}{
		"decided":     {"return 1", 1, idle},
		"failed":      {"return redis.error_reply('OOM x')", 1, idle},
		"replica":     {"return redis.error_reply('READONLY x')", 5, 0},
		"loading":     {"return redis.error_reply('LOADING x')", 5, 1},
		"stale":       {"return redis.error_reply('MASTERDOWN x')", 5, 1},
		"no replicas": {"return redis.error_reply('NOREPLICAS x')", 5, 1},
		"unblocked":   {"return redis.error_reply('UNBLOCKED x')", 5, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			client := redis.NewClient(&redis.Options{Addr: srv.Addr, PoolSize: idle, MaxRetries: -1})
			t.Cleanup(func() { _ = client.Close() })
			open(t, client, idle)
			calls := 0
			var conns failover.Conns
			_ = conns.Do(ctx, client, func() error {
				calls++
				return client.Eval(ctx, c.script, nil).Err()
			})
			require.Equal(t, c.calls, calls)
			require.EqualValues(t, c.left, client.PoolStats().IdleConns)
			require.NoError(t, client.Ping(ctx).Err())
		})
	}
}

// open makes idle connections.
func open(t *testing.T, client *redis.Client, n int) {
	t.Helper()
	for range n {
		conn := client.Conn()
		require.NoError(t, conn.Ping(t.Context()).Err())
		defer func() { _ = conn.Close() }()
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	var conns failover.Conns
	err := conns.Do(ctx, nil, func() error {
		calls++
		cancel()
		return errReadOnly
	})
	require.ErrorIs(t, err, errReadOnly)
	require.Equal(t, 1, calls)
}

var errReadOnly = errors.New("READONLY x")
