package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/share"
)

// A caller is one of a load, who asks for one key, and what became of it.
type caller struct {
	key    string
	policy ratelimit.FailurePolicy
	took   []time.Duration
	failed int
}

// A load is callers that go on through a fault, some by a limiter that denies what cannot be
// decided, some by one that allows it, and if the test says so some by one that decides it itself.
type load struct {
	t       *testing.T
	timeout time.Duration
	callers []*caller
	mu      sync.Mutex // of the callers
	done    chan struct{}
	wg      sync.WaitGroup

	limiters [3]*ratelimit.Limiter // by their policy
	granted  [3]atomic.Int64
	decided  atomic.Int64 // by the server, and not for those with a share
	failed   atomic.Int64 // denied or allowed without a decision
	unsent   atomic.Int64 // of these, those that were not sent
}

// share has more callers take from a key, which decide themselves while the server is unavailable.
func (l *load) share(s *Store, limit ratelimit.Limit, key string) {
	l.t.Helper()
	shared := core.Must(share.New(s, share.Config{}))
	l.t.Cleanup(func() { _ = shared.Close() })
	l.limit(shared, ratelimit.Local, limit)
	for range sharing {
		l.start(&caller{key: key, policy: ratelimit.Local})
	}
}

// limit makes the limiter with a policy, of its name.
func (l *load) limit(s ratelimit.Store, policy ratelimit.FailurePolicy, limit ratelimit.Limit) {
	l.t.Helper()
	made, err := ratelimit.New(ratelimit.Config{Name: string(policy), Limit: limit, Store: s, OnStoreError: policy})
	require.NoError(l.t, err)
	l.limiters[index(policy)] = made
}

func (l *load) start(c *caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callers = append(l.callers, c)
	l.wg.Go(func() {
		for l.call(c) {
		}
	})
}

// call is one call; false at the end.
func (l *load) call(c *caller) bool {
	began := time.Now()
	r, err := l.limiters[index(c.policy)].Take(context.Background(), c.key, 1)
	took := time.Since(began)
	switch {
	case errors.Is(err, ratelimit.ErrStore) && c.policy == ratelimit.Deny:
		l.failed.Add(1)
		if errors.Is(err, ErrUnavailable) {
			l.unsent.Add(1)
		}
	case err != nil:
		l.t.Errorf("%s, %v: %v", c.key, c.policy, err)
	case c.policy == ratelimit.Local:
		l.granted[index(c.policy)].Add(r.Permits)
		if r.Limit == 0 || r.Allowed != (r.Permits == 1) {
			l.t.Errorf("%s: it was not decided: %+v", c.key, r)
		}
	case r.Limit == 0:
		l.failed.Add(1)
	default:
		l.decided.Add(1)
		l.granted[index(c.policy)].Add(r.Permits)
	}
	l.mu.Lock()
	if err != nil || r.Limit == 0 {
		c.failed++
	}
	c.took = append(c.took, took)
	l.mu.Unlock()
	select {
	case <-l.done:
		return false
	case <-time.After(10 * time.Millisecond): // as a service would not spin
		return true
	}
}

// stop ends the callers.
func (l *load) stop() {
	select {
	case <-l.done:
		return
	default:
		close(l.done)
	}
	l.wg.Wait()
}

// until waits until a number has grown by so many, and returns how long that took.
func (l *load) until(n *atomic.Int64, more int64) time.Duration {
	l.t.Helper()
	began, want := time.Now(), n.Load()+more
	require.Eventually(l.t, func() bool { return n.Load() >= want }, 2*time.Minute, 3*time.Millisecond)
	return time.Since(began)
}

// left is what one may take of the first key; -1 if that cannot be said.
func (l *load) left() int64 {
	r, err := l.limiters[index(ratelimit.Deny)].Take(context.Background(), l.callers[0].key, 0)
	if err != nil {
		return -1
	}
	return r.Remaining
}

// round waits until each of some callers has been answered so often since spans was asked last.
func (l *load) round(of func(*caller) bool, often int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.callers {
			if of(c) && len(c.took) < often {
				return false
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)
}

// spans returns how long calls of some callers took since this was asked last, in order.
func (l *load) spans(of func(*caller) bool) (all []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.callers {
		if of(c) {
			all = append(all, c.took...)
			c.took = nil
		}
	}
	slices.Sort(all)
	return append(all, 0)[:max(1, len(all))]
}

// failedOn is how many calls of some callers have failed.
func (l *load) failedOn(of func(*caller) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.callers {
		if of(c) {
			n += c.failed
		}
	}
	return n
}

// inTime fails if a call hung, and returns a text of how long they took.
func (l *load) inTime() string {
	l.t.Helper()
	all := l.spans(func(*caller) bool { return true })
	require.Less(l.t, all[len(all)-1], l.timeout+busy)
	return spread(all)
}

// within fails if more was granted on a key than is bound by the server.
func (l *load) within(bound int64) {
	l.t.Helper()
	for _, policy := range []ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny} {
		require.LessOrEqual(l.t, l.granted[index(policy)].Load(), bound, "%v", policy)
	}
}

// shareWithin fails if the limiter with a share granted more than bound. A take under way, and one whose
// reply was lost, is charged to the share, so not one permit is granted twice.
func (l *load) shareWithin(bound int64) {
	l.t.Helper()
	require.LessOrEqual(l.t, l.granted[index(ratelimit.Local)].Load(), bound, "of a share")
}

const (
	callersOfALoad = 16
	sharing        = 4                // callers of one that decides itself
	busy           = 30 * time.Second // longer than that, a call hangs
)

// startLoad has callers take from keys, each under a limit.
func startLoad(t *testing.T, s *Store, limit ratelimit.Limit, keys ...string) *load {
	t.Helper()
	l := &load{t: t, timeout: s.cfg.Timeout, done: make(chan struct{})} // as it was configured
	l.limit(s, ratelimit.Deny, limit)
	l.limit(s, ratelimit.Allow, limit)
	for i := range callersOfALoad {
		l.start(&caller{key: keys[i/2%len(keys)], policy: []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow}[i%2]})
	}
	t.Cleanup(l.stop)
	return l
}

func spread(all []time.Duration) string {
	at := func(percent int) time.Duration {
		return all[min(len(all)-1, len(all)*percent/100)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d calls, half within %v, 99%% within %v, all within %v", len(all), at(50), at(99), at(100))
}

func index(p ratelimit.FailurePolicy) int {
	return slices.Index([]ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny, ratelimit.Local}, p)
}

// TestCrash kills the server and starts it again, empty, while callers go on: each life
// of it grants no more than the limit. With a share, that of one instance which is all of the limit, it
// is each life and the time until the next: the share begins with what the server had left.
func TestCrash(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		srv := startServer(t)
		const limit, lives = 500, 3
		s := newStore(t, srv.client(t), Config{Mode: mode, Timeout: 250 * time.Millisecond})
		l := startLoad(t, s, ratelimit.PerHour(limit), "k")
		l.share(s, ratelimit.PerHour(limit), "k")
		l.until(&l.granted[index(ratelimit.Local)], limit/5)
		for life := range int64(lives) {
			l.until(&l.granted[index(ratelimit.Deny)], limit/4)
			l.within((life + 1) * limit)
			if life == lives-1 {
				break
			}
			srv.Kill()
			unsent := l.until(&l.unsent, 1)
			l.until(&l.unsent, 100)
			shared := func(c *caller) bool { return c.policy == ratelimit.Local }
			l.spans(shared)
			l.round(shared, 2*limit/sharing) // what it has is taken
			l.shareWithin((life + 1) * limit)
			require.NoError(t, srv.Restart())
			t.Logf("%v: unavailable after %v, back after %v, granted %d, %d and %d in %d lives", mode, unsent, l.until(&l.decided, 1),
				l.granted[index(ratelimit.Deny)].Load(), l.granted[index(ratelimit.Allow)].Load(), l.granted[index(ratelimit.Local)].Load(), life+1)
		}
		l.until(&l.decided, 2*limit)
		l.stop()
		t.Logf("%v: %s", mode, l.inTime())
		l.within(lives * limit)
		l.shareWithin(lives * limit)
	})
}

// startSentinel starts a Sentinel that makes the replica of a primary the primary when it is told to. It does not do that by itself: a
// busy machine can stop a primary for as long as an outage that it would find soon enough for a test.
func startSentinel(t *testing.T, primary *redisserver.Server) *redisserver.Server {
	t.Helper()
	config := filepath.Join(t.TempDir(), "sentinel.conf") // it is written to
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, "sentinel monitor primary %s 1\nsentinel down-after-milliseconds primary 600000\n"+
		"sentinel failover-timeout primary 3000\n", strings.ReplaceAll(primary.Addr, ":", " ")), 0o600))
	s := redistest.Start(t, config, "--sentinel")
	require.NoError(t, s.Await("info sentinel", "status=ok,address="+primary.Addr+",slaves=1"))
	return s
}

// TestFailover kills the primary while callers go on: Sentinel makes the replica the
// primary, and what had not reached that, a capacity at most, is granted once more. It is the same
// with a share: what it lets through is charged to what the replica has.
func TestFailover(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		group := redistest.StartRelay(t)
		sentinel := startSentinel(t, group.Primary)
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "primary", SentinelAddrs: []string{sentinel.Addr}})
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
		require.NoError(t, sentinel.Await("sentinel failover primary", "OK"))
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

// TestExhaustedPool: other users of the client have all of its connections. That says nothing
// of the server.
func TestExhaustedPool(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redis.Options){
		"waits":    func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 2, -1 },
		"is short": func(o *redis.Options) { o.PoolSize, o.PoolTimeout, o.PipelinePoolSize = 2, 10*time.Millisecond, -1 },
		"refuses":  func(o *redis.Options) { o.PoolSize, o.MaxActiveConns, o.PipelinePoolSize = 2, 2, -1 },
	} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", before), func(t *testing.T) {
				t.Parallel()
				modes(t, func(t *testing.T, mode Mode) {
					t.Helper()
					client := startServer(t).client(t, change)
					s := newStore(t, client, Config{Mode: mode, Timeout: 100 * time.Millisecond})
					table := open(t, s, "t")
					id := planned(t, table, ratelimit.PerHour(1000))
					if before {
						decides(t, table, "k", id)
					}
					held, free := context.WithCancel(context.Background())
					defer free()
					for range 2 {
						conn := client.Conn()
						require.NoError(t, conn.Ping(held).Err())
						context.AfterFunc(held, func() { _ = conn.Close() })
					}
					for range failures + 2 {
						_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
						require.ErrorContains(t, err, "all connections of the client's pool are in use")
						require.True(t, noConnection(err), err)
					}
					require.Equal(t, breaker.Closed, s.first.guard.State())
					free()
					decides(t, table, "k", id)
				})
			})
		}
	}
}

// Decisions without a connection say nothing of a server that answers on others meanwhile.
func TestServerThatAnswersOthers(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).client(t), Config{})
	ctx := t.Context()
	var trips []trip
	for range 2 * failures {
		late, err := s.first.admit(ctx)
		require.NoError(t, err)
		trips = append(trips, late)
	}
	trips[0].ended(core.Success, true)
	for _, late := range trips[1:] {
		late.ended(core.Failure, false)
	}
	require.Equal(t, breaker.Closed, s.first.guard.State())
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		srv := startServer(t)
		s := newStore(t, srv.client(t), Config{Mode: mode, Timeout: 200 * time.Millisecond})
		allow, err := ratelimit.New(ratelimit.Config{Name: "a", Store: s, Limit: ratelimit.PerHour(1000)})
		require.NoError(t, err)
		deny, err := ratelimit.New(ratelimit.Config{Name: "d", Store: s, OnStoreError: ratelimit.Deny})
		require.NoError(t, err)
		require.Eventually(t, func() bool { // the first connection can take longer than Timeout
			_, err := deny.Take(ctx, "k", 1)
			return err == nil
		}, busy, time.Millisecond)
		srv.Kill()
		for range failures {
			r, err := allow.Take(ctx, "k", 1)
			require.NoError(t, err)
			require.True(t, r.Allowed)
		}
		quiettest.Test(t, func(t *quiettest.T) {
			var unsent []time.Duration
			for range 100 {
				start := time.Now()
				_, err := deny.Take(ctx, "k", 1)
				if errors.Is(err, ErrUnavailable) {
					unsent = append(unsent, time.Since(start))
				}
				require.ErrorIs(t, err, ratelimit.ErrStore)
				require.NotErrorIs(t, err, core.ErrRejected)
			}
			slices.Sort(unsent)
			require.Greater(t, len(unsent), 90)
			require.Less(t, unsent[len(unsent)/2], 100*time.Millisecond, "at once")
		})
		require.NoError(t, srv.Restart())
		require.Eventually(t, func() bool {
			_, err := deny.Take(ctx, "k", 1)
			return err == nil
		}, busy, 10*time.Millisecond)
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

// TestFailoverBehindOneAddress: the connections that are open lead to the demoted server. No decision
// fails, and each is charged once. But one that meets a cut of which the client has not been told yet has an unknown end.
func TestFailoverBehindOneAddress(t *testing.T) {
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
				var unknown atomic.Int64
				for name, l := range all {
					id := planned(t, table, l)
					for range callers {
						wg.Go(func() {
							for range each {
								_, err := table.Apply(context.WithoutCancel(t.Context()), name, id, limits.Op{Cost: 1})
								if to.cut && cut(err) {
									unknown.Add(1)
								} else if err != nil {
									t.Errorf("%s: %v", name, err)
								}
							}
						})
					}
				}
				wg.Wait()
				require.NoError(t, s.Close()) // gives back what was taken in advance
				lost := int64(0)
				if mode == Lease {
					lost = callers * each * unknown.Load() // as many can have been taken in advance
				}
				// The new primary is asked by a client of its own: the demoted one may still answer a read over
				// one of the connections, and be behind.
				now := open(t, newStore(t, server{r.Replica}.client(t), Config{Mode: mode}), "t")
				for name, l := range all {
					got := take(t, now, name, l, 0).Remaining
					require.GreaterOrEqual(t, got, limit-1-callers*each-lost, name)
					require.LessOrEqual(t, got, limit-1-callers*each+unknown.Load(), name)
				}
				require.Less(t, unknown.Load(), int64(len(all)*callers*each/2))
			})
		})
	}
}

// TestDemotedServer: where a new connection leads to it too, nothing is decided.
func TestDemotedServer(t *testing.T) {
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
				id := planned(t, table, ratelimit.PerHour(10))
				_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
				require.ErrorContains(t, err, to.says)
				_, unsent := limits.IsUnsent(err)
				require.True(t, unsent, err)
				require.Eventually(t, func() bool {
					_, err = table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
					return errors.Is(err, ErrUnavailable)
				}, busy, time.Millisecond)
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

// TestNetworkFailure: callers are answered in time while nothing comes through, at once after a
// while, and decisions are made again after it.
func TestNetworkFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		fail    func(*redistest.Proxy)
	}{
		"cut":       {200 * time.Millisecond, (*redistest.Proxy).Cut},
		"half-open": {200 * time.Millisecond, (*redistest.Proxy).Swallow},
		"slow":      {200 * time.Millisecond, func(p *redistest.Proxy) { p.Delay(400 * time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				leavesNothing(t)
				proxy, client := startProxy(t)
				const limit = 1000
				l := startLoad(t, newStore(t, client, Config{Mode: mode, Timeout: c.timeout}), ratelimit.PerHour(limit), "k")
				l.until(&l.decided, 500)
				before := l.inTime()
				c.fail(proxy)
				l.until(&l.failed, 2*callersOfALoad)
				found := l.until(&l.unsent, 1)
				_ = l.inTime()
				decided := l.decided.Load()
				l.until(&l.unsent, 2000)
				during := l.inTime()
				require.Equal(t, decided, l.decided.Load(), "nothing comes through")
				proxy.Resume()
				back := l.until(&l.decided, 100)
				l.stop()
				t.Logf("%s %v\nbefore: %s\nunavailable after %v: %s\nback after %v: %s", name, mode, before, found, during, back, l.inTime())
				l.within(limit)
			})
		})
	}
}

// A replica that takes over is found although no server that still lives has been asked.
func TestFailoverInACluster(t *testing.T) {
	t.Parallel()
	args := []string{"--cluster-require-full-coverage", "no"}
	servers, client := startCluster(t, func(o *redis.ClusterOptions) { o.ClusterStateReloadInterval = time.Hour }, args...)
	store := newStore(t, client, Config{Timeout: time.Second})
	l := core.Must(ratelimit.New(ratelimit.Config{Name: "l", Store: store, Limit: ratelimit.PerHour(1000), OnStoreError: ratelimit.Deny}))
	key := ""
	for i := 0; key == ""; i++ {
		name := strconv.Itoa(i)
		if master := core.Must(client.MasterForKey(t.Context(), keyName(keyPrefix(defaultPrefix, l.Name()), name, false))); master.Options().Addr == servers[0].Addr {
			key = name
		}
	}
	take := func() error { _, err := l.Take(t.Context(), key, 1); return err }
	require.NoError(t, take())
	do := func(s *redisserver.Server, command string) string { return core.Must(s.Do(command)) }
	var replica *redisserver.Server
	for tries := 0; replica == nil && tries < 10; tries++ { // another process can take the port
		free := core.Must(net.Listen("tcp", "127.0.0.1:0"))
		_, bus, _ := net.SplitHostPort(free.Addr().String())
		require.NoError(t, free.Close())
		replica, _ = redisserver.Start(t.TempDir(), append(args, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", bus)...)
	}
	require.NotNil(t, replica)
	t.Cleanup(replica.Kill)
	host, port, _ := net.SplitHostPort(servers[0].Addr)
	do(replica, "cluster meet "+host+" "+port+" "+strings.TrimSpace(do(servers[0], "config get cluster-port")[len("cluster-port"):]))
	require.NoError(t, replica.Await("cluster info", "cluster_known_nodes:4", "cluster_state:ok"))
	do(replica, "cluster replicate "+do(servers[0], "cluster myid"))
	require.NoError(t, replica.Await("info replication", "master_link_status:up"))
	servers[0].Kill()
	require.Error(t, take())
	do(replica, "cluster failover takeover")
	for _, s := range servers[1:] {
		require.NoError(t, s.Await("cluster slots", replica.Addr[strings.LastIndexByte(replica.Addr, ':')+1:]))
	}
	require.Eventually(t, func() bool { return take() == nil }, time.Minute, 50*time.Millisecond)
}

// TestLostNodeOfACluster: decisions on keys of the others go on, and wait for nothing; those on a
// key of the lost one go on with a share. That grants with the server what is left of the limit, and
// once more all if the server comes back empty.
func TestLostNodeOfACluster(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redisserver.Server, *redistest.Proxy){
		"killed":    func(s *redisserver.Server, _ *redistest.Proxy) { s.Kill() },
		"half-open": func(_ *redisserver.Server, p *redistest.Proxy) { p.Swallow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				leavesNothing(t)
				var proxies atomic.Pointer[map[string]*redistest.Proxy]
				servers, client := startCluster(t, func(o *redis.ClusterOptions) {
					o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
						var d net.Dialer
						return d.DialContext(ctx, network, (*proxies.Load())[addr].Addr)
					}
				}, "--cluster-require-full-coverage", "no")
				all := map[string]*redistest.Proxy{}
				for _, s := range servers {
					p := redistest.StartProxy(t, s.Addr)
					all[s.Addr] = p
				}
				proxies.Store(&all)

				var keys []string // one on each server
				for i := 0; len(keys) < len(servers); i++ {
					key := strconv.Itoa(i%100) + strings.Repeat("x", i/100) // the slots of two names differ by the same bits for all keys of a length
					for _, limiter := range []string{"deny", "allow", "local"} {
						master, err := client.MasterForKey(t.Context(), keyName(keyPrefix(defaultPrefix, limiter), key, false))
						require.NoError(t, err)
						if master.Options().Addr != servers[len(keys)].Addr {
							key = ""
							break
						}
					}
					if key != "" {
						keys = append(keys, key)
					}
				}

				const limit, timeout = 300, 2 * time.Second // longer than a busy machine keeps a caller waiting
				s := newStore(t, client, Config{Mode: mode, Timeout: timeout})
				l := startLoad(t, s, ratelimit.PerHour(limit), keys...)
				l.until(&l.decided, 300)
				l.share(s, ratelimit.PerHour(limit), keys[0])
				l.until(&l.granted[index(ratelimit.Local)], limit/5)
				lost := func(c *caller) bool { return c.key == keys[0] }
				others := func(c *caller) bool { return !lost(c) }
				before := l.spans(others)
				l.spans(lost)
				failed := l.failedOn(others)
				lose(servers[0], all[servers[0].Addr])
				l.until(&l.failed, 10)
				l.round(others, 50)
				during := l.spans(others)
				_ = l.inTime()
				require.LessOrEqual(t, l.failedOn(others)-failed, callersOfALoad, "they have a server: %s", spread(during))
				require.Less(t, during[len(during)/2], timeout/5, "they wait for nothing: %s", spread(during))

				l.round(lost, 6)
				l.round(func(c *caller) bool { return c.policy == ratelimit.Local }, 2*limit/sharing) // what they have is taken
				l.shareWithin(limit)
				lives := int64(1)
				if all[servers[0].Addr].Resume(); name == "killed" {
					require.NoError(t, servers[0].Restart())
					lives++
				}
				began := time.Now()
				require.Eventually(t, func() bool {
					r, err := l.limiters[index(ratelimit.Deny)].Take(context.Background(), keys[0], 1)
					return err == nil && r.Limit == limit
				}, 30*time.Second, 10*time.Millisecond)
				t.Logf("%s %v: the others before: %s\nwhile it is lost: %s\nback after %v", name, mode, spread(before), spread(during), time.Since(began))
				l.stop()
				l.within(limit * int64(len(servers)+1))
				l.shareWithin(limit * lives)
			})
		})
	}
}

// TestMovedSlot: each permit is granted once wherever the key is meanwhile, and callers
// see next to nothing of it.
func TestMovedSlot(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		servers, client := startCluster(t, nil)
		const limit = 1500
		l := startLoad(t, newStore(t, client, Config{Mode: mode, Timeout: 2 * time.Second}), ratelimit.PerHour(limit), "k")
		do := func(s *redisserver.Server, words ...string) string {
			t.Helper()
			reply, err := s.Do(words...)
			require.NoError(t, err, "%q", words)
			return reply
		}
		for _, policy := range []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow} {
			l.until(&l.decided, 100) // not the grants: callers may have used up the limit
			name := keyName(keyPrefix(defaultPrefix, string(policy)), "k", false)
			master, err := client.MasterForKey(t.Context(), name)
			require.NoError(t, err)
			at := slices.IndexFunc(servers, func(s *redisserver.Server) bool { return s.Addr == master.Options().Addr })
			from, to := servers[at], servers[(at+1)%len(servers)]
			slot, fromID, toID := do(from, "cluster", "keyslot", name), do(from, "cluster", "myid"), do(to, "cluster", "myid")
			host, port, err := net.SplitHostPort(to.Addr)
			require.NoError(t, err)

			do(to, "cluster", "setslot", slot, "importing", fromID)
			do(from, "cluster", "setslot", slot, "migrating", toID)
			l.until(&l.decided, 100) // it is where it was
			require.Equal(t, name, do(from, "cluster", "getkeysinslot", slot, "10"))
			require.Equal(t, "OK", do(from, "migrate", host, port, name, "0", "5000"))
			l.until(&l.decided, 100) // callers are redirected, each time
			require.Equal(t, "1", do(to, "cluster", "countkeysinslot", slot))
			for _, s := range []*redisserver.Server{to, from, servers[(at+2)%len(servers)]} {
				do(s, "cluster", "setslot", slot, "node", toID)
			}
			l.until(&l.decided, 100)
			master, err = client.MasterForKey(t.Context(), name)
			require.NoError(t, err)
			t.Logf("%v %v: slot %s from %s to %s, the client knows of %s", mode, policy, slot, from.Addr, to.Addr, master.Options().Addr)
		}
		for _, policy := range []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow} {
			require.Eventually(t, func() bool {
				r, err := l.limiters[index(policy)].Peek(context.Background(), "k")
				spent := l.granted[index(policy)].Load() >= limit-l.failed.Load() // and what was taken in advance is spent, too
				return err == nil && r.Limit == limit && r.Remaining == 0 && spent
			}, 30*time.Second, 10*time.Millisecond, "%v: only a lost reply is a lost permit", policy)
		}
		l.stop()
		t.Logf("%v: %d failed; %s", mode, l.failed.Load(), l.inTime())
		require.LessOrEqual(t, l.failed.Load(), int64(3), "one for each step at most")
		l.within(limit)
	})
}

func TestUnavailableNodeThatIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{nodes: map[string]*node{}}
		s.first = s.newNode(nil)
		gone := s.newNode(nil)
		s.nodes["gone"] = gone
		time.Sleep(time.Hour)
		for range failures {
			trip, err := gone.admit(t.Context())
			require.NoError(t, err)
			trip.permit.Done(core.Failure)
		}
		require.True(t, s.Stats().Unavailable)
		time.Sleep(unused - 1)
		require.True(t, s.Stats().Unavailable)
		time.Sleep(time.Nanosecond)
		require.False(t, s.Stats().Unavailable, "a server of a Cluster that nobody asks")
		s.single = true
		require.True(t, s.Stats().Unavailable, "the only one")
	})
}
