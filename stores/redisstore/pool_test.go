package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

// TestAPoolThatItsOwnDecisionsExhaustIsNamed: also if MaxActiveConns makes it smaller than PoolSize.
func TestAPoolThatItsOwnDecisionsExhaustIsNamed(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t, func(o *redis.Options) { o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = 10, 2, -1 })
	s := newStore(t, client, Config{})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(1000), 1)
	resume := pause(t, srv.client(t))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _ = table.Apply(context.WithoutCancel(t.Context()), "k", 1, driver.Op{Cost: 1}) })
	}
	require.Eventually(t, func() bool {
		stats := client.PoolStats()
		return s.first.connections() == 2 && stats.TotalConns == 2 && stats.IdleConns == 0
	}, patient, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.first.connect(ctx)
	require.ErrorContains(t, err, "all connections of the client's pool are in use")
	require.True(t, noConnection(err), err)
	resume()
	wg.Wait()
}
