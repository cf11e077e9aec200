package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
)

// TestAFailoverUnderLoad kills the primary while callers go on: Sentinel makes the replica the
// primary, and what had not reached that, a capacity at most, is granted once more. It is the same
// with a share: what it lets through is charged to what the replica has.
func TestAFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		group, err := redisserver.StartFailover(t.TempDir())
		require.NoError(t, err)
		t.Cleanup(group.Kill)
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redisserver.PrimaryName, SentinelAddrs: []string{group.Sentinel.Addr}})
		t.Cleanup(func() { _ = client.Close() })

		const limit = 3000
		s := newStore(t, client, Config{Mode: mode, Timeout: 250 * time.Millisecond})
		l := startLoad(t, s, ratelimit.PerHour(limit), "k")
		l.share(s, ratelimit.PerHour(limit), "k")
		l.until(&l.granted[index(ratelimit.Deny)], limit/3)
		before, failed := l.inTime(), l.failed.Load()
		group.Primary.Kill()
		killed := time.Now()
		l.until(&l.failed, 1)
		require.NoError(t, group.Promote())
		l.until(&l.decided, 1)
		back := time.Since(killed)
		during := l.inTime()
		failed = l.failed.Load() - failed
		l.until(&l.decided, 100)
		require.Eventually(t, func() bool { return l.left() == 0 }, 30*time.Second, 10*time.Millisecond)
		l.stop()
		t.Logf("%v\nbefore: %s\ndecides again after %v, %d passed or denied without: %s\nafter: %s\ngranted %d, %d and %d of %d", mode, before, back, failed, during, l.inTime(),
			l.granted[index(ratelimit.Deny)].Load(), l.granted[index(ratelimit.Allow)].Load(), l.granted[index(ratelimit.Local)].Load(), limit)
		l.within(2 * limit)
		l.shareWithin(2 * limit)
	})
}

// A demotion is what a primary is after a failover in which it was not killed.
type demotion struct {
	name, says string
	commands   []string // of the server: see redistest.Relay
	cut        bool     // its connections
}

func demotions() []demotion {
	return []demotion{
		{"replica", "the server is a replica", []string{"replicaof %s"}, false},
		{"cut", "", []string{"replicaof %s"}, true},
		{"stale replica", "the cluster is not complete", []string{"config set replica-serve-stale-data no", "replicaof 127.0.0.1 1"}, false},
		{"without replicas", "cut off from its replicas", []string{"config set min-replicas-to-write 1"}, false},
	}
}

// idleClient returns a client with n idle connections, and as many for pipelines.
func idleClient(t *testing.T, r *redistest.Relay, n int) *redis.Client {
	t.Helper()
	client := server{&redisserver.Server{Addr: r.Addr}}.client(t, func(o *redis.Options) {
		o.PoolSize, o.PipelinePoolSize, o.ContextTimeoutEnabled = 2*n, 2*n, true
	})
	ctx := t.Context()
	var all []*redis.Conn
	for range n {
		conn := client.Conn()
		require.NoError(t, conn.Ping(ctx).Err())
		all = append(all, conn)
	}
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
	var wg sync.WaitGroup
	r.Delay(100 * time.Millisecond) // so each takes a connection of its own
	for range n {
		wg.Go(func() {
			_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error { pipe.Ping(ctx); pipe.Ping(ctx); return nil })
		})
	}
	wg.Wait()
	r.Delay(0)
	require.EqualValues(t, n, client.PoolStats().IdleConns)
	return client
}

// TestAFailoverBehindOneAddress: the connections that are open lead to the demoted server. No decision
// fails, and each is charged once.
func TestAFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	for _, to := range demotions() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				leavesNothing(t)
				const limit, callers, each = 1000, 4, 10
				r := redistest.StartRelay(t)
				s := newStore(t, idleClient(t, r, 40), Config{Mode: mode})
				table := open(t, s, "t")
				all := kinds(limit, limit*time.Hour) // no permit comes back meanwhile
				for name, l := range all {
					take(t, table, name, l, 1)
				}
				r.Swap(t, to.cut, to.commands...)
				var wg sync.WaitGroup
				for name, l := range all {
					id, err := table.Plan(limits.Limit(l).Specs())
					require.NoError(t, err)
					for range callers {
						wg.Go(func() {
							for range each {
								if _, err := table.Apply(context.WithoutCancel(t.Context()), name, id, limits.Op{Cost: 1}); err != nil {
									t.Errorf("%s: %v", name, err)
								}
							}
						})
					}
				}
				wg.Wait()
				// The new primary is asked by a client of its own: the demoted one may still answer a read over
				// one of the connections, and be behind.
				now := open(t, newStore(t, server{r.Replica}.client(t), Config{Mode: mode}), "t")
				for name, l := range all {
					require.EqualValues(t, limit-1-callers*each, take(t, now, name, l, 0).Remaining, name)
				}
			})
		})
	}
}

// TestAServerThatIsNotThePrimary: where a new connection leads to it too, nothing is decided.
func TestAServerThatIsNotThePrimary(t *testing.T) {
	t.Parallel()
	for _, to := range demotions() {
		if to.cut {
			continue
		}
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				r := redistest.StartRelay(t)
				s := newStore(t, idleClient(t, r, 3), Config{Mode: mode})
				table := open(t, s, "t")
				take(t, table, "k", ratelimit.PerHour(10), 1)
				r.Swap(t, to.cut, to.commands...)
				r.Point(r.Primary.Addr)
				id, err := table.Plan(limits.Limit(ratelimit.PerHour(10)).Specs())
				require.NoError(t, err)
				_, err = table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
				require.ErrorContains(t, err, to.says)
				_, unsent := limits.IsUnsent(err)
				require.True(t, unsent, err)
				require.Eventually(t, func() bool {
					_, err = table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
					return errors.Is(err, ErrUnavailable)
				}, patient, time.Millisecond)
				r.Point(r.Replica.Addr)
				var decided limits.Result
				require.Eventually(t, func() bool {
					decided, err = table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
					return err == nil
				}, busy, time.Millisecond)
				require.EqualValues(t, 8, decided.Remaining)
			})
		})
	}
}

// TestHoldsAfterAFailover: the cooldowns of a process whose connections lead to the demoted server go on with the new primary, without
// a failure.
func TestHoldsAfterAFailover(t *testing.T) {
	t.Parallel()
	for _, to := range demotions() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			r := redistest.StartRelay(t)
			var news news
			c := newShared(t, idleClient(t, r, 40), Config{}, news.listen)
			use(t, c, "k")
			require.Eventually(t, isPushed(c), patient, time.Millisecond)
			r.Swap(t, to.cut, to.commands...)
			c.Hold(t.Context(), "k", time.Hour)
			other := newShared(t, server{r.Replica}.client(t), Config{})
			use(t, other, "else") // so it reads the holds
			require.Eventually(t, isHeld(other, "k"), patient, time.Millisecond)
			news.mu.Lock()
			defer news.mu.Unlock()
			lost := 0
			if to.cut {
				lost = 1 // what was under way when its connection was cut
			}
			require.LessOrEqual(t, news.failed, lost, "%v", news.err)
		})
	}
}
