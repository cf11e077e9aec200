package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/redisserver"
)

// startCluster starts three servers that share the slots, and makes a client for them.
func startCluster(t *testing.T, change func(*redis.ClusterOptions), args ...string) (redisserver.Cluster, *redis.ClusterClient) {
	t.Helper()
	servers, err := redisserver.StartCluster(t.TempDir(), 3, args...)
	require.NoError(t, err)
	t.Cleanup(servers.Kill)
	opt := &redis.ClusterOptions{Addrs: servers.Addrs(), ContextTimeoutEnabled: true}
	if change != nil {
		change(opt)
	}
	c := redis.NewClusterClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return servers, c
}

func TestCluster(t *testing.T) {
	t.Parallel()
	_, client := startCluster(t, nil)
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		table := open(t, newStore(t, client, Config{Mode: mode, Prefix: string(mode)}), "cluster")
		var wg sync.WaitGroup
		for name, l := range kinds(10, time.Hour) {
			for i := range 10 {
				for range 12 {
					wg.Go(func() {
						id, err := table.Plan(limits.Limit(l).Specs())
						if err != nil {
							t.Error(err)
							return
						}
						if _, err := table.Apply(context.Background(), name+strconv.Itoa(i), id, limits.Op{Cost: 1}); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
		wg.Wait()
		for _, key := range []string{"{a}", "}{", "{}", "{a", "b}", "a\nb", "\xff", strings.Repeat("{x}", 10_000)} {
			for _, l := range kinds(10, time.Hour) { // each of another kind, so that counts are handed over
				require.NotZero(t, take(t, table, key, l, 1).Limit, "%.20q", key)
			}
		}
		for name, l := range kinds(10, time.Hour) {
			for i := range 10 {
				r := take(t, table, fmt.Sprint(name, i), l, 1)
				require.False(t, r.Allowed)
				require.Zero(t, r.Remaining)
			}
		}
	})
}
