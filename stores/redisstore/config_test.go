package redisstore

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate())
	for field, c := range map[string]Config{
		"redisstore.Config.Prefix":  {Prefix: "a{b}"},
		"redisstore.Config.Mode":    {Mode: "lease"},
		"redisstore.Config.Timeout": {Timeout: -1},
	} {
		_, err := New(redis.NewClient(&redis.Options{}), c)
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, field, bad.Field)
	}
	_, err := New(nil, Config{})
	require.ErrorIs(t, err, core.ErrConfig)
	_, err = New(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"x:1"}}), Config{})
	require.ErrorContains(t, err, "ContextTimeoutEnabled")
}

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

func TestServersThatCannotBeUsed(t *testing.T) {
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
		"wrong user":     {guarded.client(t, func(o *redis.Options) { o.Username, o.Password = "nobody", "guess" }), "wants another user or password"},
		"no password":    {guarded.client(t), "wants another user or password"},
		"wrong password": {guarded.client(t, func(o *redis.Options) { o.Password = "guess" }), "wants another user or password"},
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
		id, err := table.Plan(limits.Limit(ratelimit.PerHour(1)).Specs())
		require.NoError(t, err)
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
