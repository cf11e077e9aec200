package redisstore

import (
	"bytes"
	"context"
	"net"
	"strings"
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
		"redisstore.Config.Prefix":      {Prefix: "a{b}"},
		"redisstore.Config.Mode":        {Mode: 7},
		"redisstore.Config.Timeout":     {Timeout: -1},
		"redisstore.Config.DialTimeout": {DialTimeout: -1},
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
	require.Equal(t, "strict coalesced Mode(7)", strings.Join([]string{Strict.String(), Coalesced.String(), Mode(7).String()}, " "))
}

func TestModeNames(t *testing.T) {
	t.Parallel()
	for _, m := range []Mode{Strict, Coalesced} {
		text, err := m.MarshalText()
		require.NoError(t, err)
		got := Mode(9)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, m, got)
	}
	_, err := Mode(7).MarshalText()
	require.EqualError(t, err, "redisstore.Mode = Mode(7): must be strict or coalesced")
	for _, name := range []string{"", "Strict", "lease", "Mode(2)"} {
		got := Coalesced
		require.ErrorIs(t, got.UnmarshalText([]byte(name)), core.ErrConfig)
		require.Equal(t, Coalesced, got)
	}
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
		table := open(t, s, "t")
		id, err := table.Plan(limits.Limit(ratelimit.PerHour(1)).Specs())
		require.NoError(t, err)
		_, err = table.Apply(ctx, "k", id, limits.Op{Cost: 1})
		require.ErrorContains(t, err, c.says, name)
		require.NotErrorIs(t, err, core.ErrRejected, name)
		require.NotContains(t, err.Error(), "guess")
	}
	right := guarded.client(t, func(o *redis.Options) { o.Password = "secret" })
	require.NoError(t, newStore(t, right, Config{}).Check(ctx))
}

func TestAPolicyThatForgetsIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]int{"noeviction": 0, "volatile-ttl": 0, "allkeys-lru": 1, "allkeys-random": 1, "volatile-lru": 1} {
		told := make(chan error, 10)
		s := newStore(t, startServer(t, "--maxmemory-policy", policy).client(t), Config{Warn: func(err error) { told <- err }})
		table := open(t, s, "t")
		for range 3 {
			take(t, table, "k", ratelimit.PerHour(10), 1)
		}
		require.NoError(t, s.Check(context.Background()))
		for range want {
			require.ErrorContains(t, <-told, policy)
		}
		require.Empty(t, told)
	}
}
