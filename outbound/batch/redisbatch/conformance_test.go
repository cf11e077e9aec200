package redisbatch

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/batch/batchtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	batchtest.Run(t, func(t *testing.T) batch.Store {
		t.Helper()
		s, err := New(client, Config{})
		require.NoError(t, err)
		return s
	})
}

// Every key of a method is in one slot, otherwise a server of a Cluster would refuse the script. The user
// has the rules of the package documentation.
func TestConformanceInACluster(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.TempDir(), 3)
	require.NoError(t, err)
	t.Cleanup(cluster.Kill)
	allowed, more := aclOfTheDocs(t)
	for _, s := range cluster {
		_, err := s.Do(append(append([]string{"acl", "setuser", "batches", "on", ">secret", "~in:a:cluster:*"}, allowed...), more...)...)
		require.NoError(t, err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "batches", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	batchtest.Run(t, func(t *testing.T) batch.Store {
		t.Helper()
		s, err := New(client, Config{Prefix: "in:a:cluster"})
		require.NoError(t, err)
		return s
	})
}
