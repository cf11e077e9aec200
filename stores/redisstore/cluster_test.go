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

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
)

// startCluster starts three servers that share the slots.
func startCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	ctx := context.Background()
	var nodes []*redis.Client
	var addrs, first []string
	for i := range 3 {
		bus, err := redisserver.FreePort()
		require.NoError(t, err)
		srv := startServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", bus)
		nodes, addrs = append(nodes, srv.client(t)), append(addrs, srv.Addr)
		require.NoError(t, nodes[i].Do(ctx, "cluster", "addslotsrange", i*16384/3, (i+1)*16384/3-1).Err())
		require.NoError(t, nodes[i].Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		if i == 0 {
			first = append(strings.Split(srv.Addr, ":"), bus)
			continue
		}
		require.NoError(t, nodes[i].Do(ctx, "cluster", "meet", first[0], first[1], first[2]).Err())
	}
	require.Eventually(t, func() bool {
		for _, n := range nodes {
			info := n.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return false
			}
		}
		return true
	}, 60*time.Second, 50*time.Millisecond)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCluster(t *testing.T) {
	t.Parallel()
	client := startCluster(t)
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		table := open(t, newStore(t, client, Config{Mode: mode, Prefix: mode.String()}), "cluster")
		var wg sync.WaitGroup
		for name, l := range kinds(10, time.Hour) {
			for i := range 10 {
				for range 12 {
					wg.Go(func() {
						id, err := table.Plan(l)
						if err != nil {
							t.Error(err)
							return
						}
						if _, err := table.Apply(context.Background(), name+strconv.Itoa(i), id, ratelimit.Op{Cost: 1}); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
		wg.Wait()
		for name, l := range kinds(10, time.Hour) {
			for i := range 10 {
				r := take(t, table, fmt.Sprint(name, i), l, 1)
				require.False(t, r.Allowed)
				require.Zero(t, r.Remaining)
			}
		}
	})
}
