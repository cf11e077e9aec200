package redisstore

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// useAll has the store use so many connections at a time, until resume is called and wg ends.
func useAll(t *testing.T, srv server, client *redis.Client, s *Store, n int) (resume func(), wg *sync.WaitGroup) {
	t.Helper()
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(1000), 1)
	resume, wg = pause(t, srv.client(t)), &sync.WaitGroup{}
	for range n {
		wg.Go(func() {
			_, _ = table.Apply(context.WithoutCancel(t.Context()), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		})
	}
	require.Eventually(t, func() bool {
		stats := client.PoolStats()
		return s.first.connections() == n && int(stats.TotalConns) == n && stats.IdleConns == 0
	}, patient, time.Millisecond)
	return resume, wg
}

// TestAPoolThatItsOwnDecisionsExhaustIsNamed: also if MaxActiveConns makes it smaller than PoolSize.
func TestAPoolThatItsOwnDecisionsExhaustIsNamed(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t, func(o *redis.Options) { o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = 10, 2, -1 })
	s := newStore(t, client, Config{})
	resume, wg := useAll(t, srv, client, s, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.first.connect(ctx)
	require.ErrorContains(t, err, "all connections of the client's pool are in use")
	require.True(t, noConnection(err), err)
	resume()
	wg.Wait()
}

// TestTheClientDropsIdleConnections: those beyond MaxIdleConns are closed after their use, so the store
// does not count them.
func TestTheClientDropsIdleConnections(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t, func(o *redis.Options) { o.MaxIdleConns = 1 })
	s := newStore(t, client, Config{})
	resume, wg := useAll(t, srv, client, s, 3)
	resume()
	wg.Wait()
	require.Equal(t, 1, s.first.connections())
	require.Positive(t, client.PoolStats().IdleConns, "more, if several ended at one moment: the client counts them without a lock")
}

// TestTheClientDropsConnectionsThatAreNotUsed: it closes a connection when it finds it older than
// ConnMaxIdleTime. So a decision waits for another one, and its Timeout does not pay for the dial.
func TestTheClientDropsConnectionsThatAreNotUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ option, lasts, ends time.Duration }{
		"set":     {time.Minute, 58 * time.Second, 59 * time.Second},
		"default": {0, 29 * time.Minute, 30*time.Minute - time.Second},
		"never":   {-1, time.Hour, 0},
	} {
		client := redis.NewClient(&redis.Options{ConnMaxIdleTime: c.option})
		require.NoError(t, client.Close())
		synctest.Test(t, func(t *testing.T) {
			n := (&Store{cfg: Config{Timeout: time.Second}}).newNode()
			n.of(client)
			n.ready = 2
			n.release(nil)
			time.Sleep(time.Minute) // below the first, which is used last
			n.release(nil)
			time.Sleep(c.lasts)
			require.True(t, n.take(time.Now()), name)
			n.release(nil)
			if c.ends > 0 {
				time.Sleep(c.ends)
				require.False(t, n.take(time.Now()), name)
				require.Zero(t, n.connections(), name)
			}
		})
	}
}

// TestConnectionsThatWereCutCostOneDecision: the client finds only then that they were cut, and the
// decision ends before another one is made. It is made for the next decision, which does not wait.
func TestConnectionsThatWereCutCostOneDecision(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	var dials sync.RWMutex
	client := srv.client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.RLock()
			defer dials.RUnlock()
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
	})
	s := newStore(t, client, Config{Timeout: 3 * time.Second})
	resume, wg := useAll(t, srv, client, s, 3)
	resume()
	wg.Wait()
	require.Equal(t, 3, s.first.connections())
	near := srv.client(t)
	dials.Lock()
	require.NoError(t, near.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
	table := open(t, s, "t")
	_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
	left := s.first.connections()
	dials.Unlock()
	require.Error(t, err)
	require.Zero(t, left)
	require.Eventually(t, func() bool { return s.first.connections() == 1 }, patient, time.Millisecond)
	take(t, table, "k", ratelimit.PerHour(1000), 1)
}
