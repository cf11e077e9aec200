package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, Config{}.Validate())
	for field, c := range map[string]Config{
		"redisstore.Config.Prefix":   {Prefix: "a{b}"},
		"redisstore.Config.Mode":     {Mode: "leases"},
		"redisstore.Config.MaxLease": {MaxLease: 10},
		"redisstore.Config.Timeout":  {Timeout: -1},
	} {
		_, err := New(redis.NewClient(&redis.Options{}), c)
		var bad *core.ConfigError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, field, bad.Field)
	}
	for _, none := range []redis.UniversalClient{nil, (*redis.Client)(nil)} {
		_, err := New(none, Config{})
		require.ErrorIs(t, err, core.ErrConfig)
	}
	_, err := New(redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"x:1"}}), Config{})
	require.ErrorContains(t, err, "ContextTimeoutEnabled")
}
