package redisstore

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// rewriting is a connection that changes what the server says, length for length.
type rewriting struct {
	net.Conn
	from, to string
}

func (c rewriting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte(c.from), []byte(c.to)))
	return n, err
}

func TestCheck(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	guarded := startServer(t, "--requirepass", "secret")
	plain := startServer(t)
	old := plain.client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return rewriting{conn, "redis_version:7.", "redis_version:6."}, err
		}
	})
	for name, c := range map[string]struct {
		client *redis.Client
		says   string
	}{
		"no server":      {plain.client(t, func(o *redis.Options) { o.Addr = "127.0.0.1:1" }), "connection refused"},
		"no port":        {plain.client(t, func(o *redis.Options) { o.Addr = "127.0.0.1" }), "missing port in address"},
		"wrong user":     {guarded.client(t, func(o *redis.Options) { o.Username, o.Password = "nobody", "guess" }), "refuses the user or password"},
		"no password":    {guarded.client(t), "refuses the user or password"},
		"wrong password": {guarded.client(t, func(o *redis.Options) { o.Password = "guess" }), "refuses the user or password"},
		"old version":    {old, "it is version 6."},
	} {
		s := newStore(t, c.client, Config{})
		err := s.Check(ctx)
		require.ErrorContains(t, err, c.says, name)
		if name == "old version" {
			require.ErrorIs(t, err, ErrUnfit)
			continue
		}
		table := open(t, s, "t")
		id := planned(t, table, ratelimit.PerHour(1))
		_, err = table.Apply(ctx, "k", id, limits.Op{Cost: 1})
		require.ErrorContains(t, err, c.says, name)
		require.NotErrorIs(t, err, core.ErrRejected, name)
		require.NotContains(t, err.Error(), "guess")
	}
	for policy, says := range map[string]string{"noeviction": "", "volatile-ttl": "", "allkeys-lru": "evicts keys with usage", "volatile-lru": "evicts keys with usage"} {
		require.NoError(t, plain.client(t).ConfigSet(ctx, "maxmemory-policy", policy).Err())
		err := newStore(t, plain.client(t), Config{}).Check(ctx)
		if says == "" {
			require.NoError(t, err, policy)
			continue
		}
		require.ErrorContains(t, err, says)
		require.NotErrorIs(t, err, ErrUnfit)
	}
	right := guarded.client(t, func(o *redis.Options) { o.Password = "secret" })
	require.NoError(t, newStore(t, right, Config{}).Check(ctx))
}

// TestCheckDistance: the round trip is measured.
func TestCheckDistance(t *testing.T) {
	t.Parallel()
	proxy, client := startProxy(t)
	proxy.Delay(40 * time.Millisecond)
	err := newStore(t, client, Config{Timeout: 100 * time.Millisecond}).Check(t.Context())
	require.ErrorContains(t, err, "the Timeout of 100ms is too short for the round trip")
	require.NoError(t, newStore(t, client, Config{Timeout: 2 * time.Second}).Check(t.Context()))
}
