package share

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/denycache"
	"github.com/gresil/gresil/stores/redisstore"
)

// modes runs a test in each mode of Redis.
func modes(t *testing.T, test func(*testing.T, redisstore.Mode)) {
	t.Helper()
	for _, mode := range []redisstore.Mode{redisstore.Strict, redisstore.Coalesced} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// TestInstancesOfRedis share a limit while the server is unavailable, from its last state on, and charge
// it with their takes.
func TestInstancesOfRedis(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode redisstore.Mode) {
		t.Helper()
		byName := kinds(100, time.Hour)
		byName["two"] = ratelimit.FixedWindow(50, 20*time.Minute).And(ratelimit.FixedWindow(100, time.Hour))
		all := sites(t, 2, mode, ratelimit.PerHour(100))
		tiers := map[string][]*ratelimit.Limiter{}
		for name, limit := range byName {
			for _, s := range all {
				tier := ratelimittest.Under(t, s.Limiter, limit)
				r, err := tier.TakeAtMost(t.Context(), name, 20)
				require.NoError(t, err)
				require.EqualValues(t, 20, r.Permits)
				tiers[name] = append(tiers[name], tier)
			}
			require.Eventually(t, func() bool { // the first knows the takes of the second
				r := take(t, tiers[name][0], name, 0)
				return r.Receipt.At > 0 && r.Limit-r.Remaining == 40
			}, time.Minute, 10*time.Millisecond, name)
		}
		lose(t, all...)
		before := map[string]int64{}
		for name, tier := range tiers {
			unused := ratelimittest.Capacity(byName[name]) - 40
			if name == "two" {
				unused = 10
			}
			for _, l := range tier {
				before[name] += takeAll(t, l, name)
			}
			require.LessOrEqual(t, before[name], unused, name)
			require.GreaterOrEqual(t, before[name], unused-2*int64(len(limits.Limit(byName[name]).Specs())), name)
		}
		for _, s := range all {
			s.proxy.Resume()
		}
		for _, s := range all {
			require.Eventually(t, func() bool {
				decided(t, s)
				return s.store.owing.Load() == 0
			}, time.Minute, 10*time.Millisecond)
		}
		for name, limit := range byName {
			require.InDelta(t, 0, atServer(t, all[0], limit, name), 3, "%s: %d before", name, before[name])
		}
	})
}

// TestServicesOfOneRedis: a service with another prefix has no part in a share.
func TestServicesOfOneRedis(t *testing.T) {
	t.Parallel()
	one := newSite(t, prefix(), redisstore.Strict, ratelimit.PerHour(100))
	other, err := ratelimit.New(ratelimit.Config{
		Name: "other", Store: newSite(t, prefix(), redisstore.Strict, ratelimit.PerHour(1)).store, Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local,
	})
	require.NoError(t, err)
	decided(t, one)
	take(t, other, "k", 1)
	for _, s := range []*sharer{one.store, storeOf(other)} {
		require.Eventually(t, func() bool { return s.Stats().Instances > 0 }, time.Minute, time.Millisecond)
		require.Equal(t, 1, s.Stats().Instances)
	}
	lose(t, one)
	require.EqualValues(t, 100, takeAll(t, one.Limiter, "k"))
}

// TestAHotKeyIsNotGrantedMoreThanTheLimit, however many of its takes are under way when the server is
// lost: one process never grants a permit twice.
func TestAHotKeyIsNotGrantedMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode redisstore.Mode) {
		t.Helper()
		for name, limit := range kinds(100, time.Hour) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, prefix(), mode, limit)
				decided(t, s)
				s.proxy.Delay(5 * time.Millisecond)
				var granted atomic.Int64
				var wg sync.WaitGroup
				for range 60 {
					wg.Go(func() {
						for range 20 {
							r, err := s.Take(context.Background(), "k", 1)
							if err != nil {
								t.Error(err)
							}
							if granted.Add(r.Permits) == 20 {
								s.proxy.Cut()
							}
						}
					})
				}
				wg.Wait()
				s.proxy.Resume()
				decided(t, s)
				granted.Add(takeAll(t, s.Limiter, "k"))
				require.LessOrEqual(t, granted.Load(), int64(100))
			})
		}
	})
}

// TestTheLastStateCounts: a reply that later decisions overtook does not replace what they reported.
func TestTheLastStateCounts(t *testing.T) {
	t.Parallel()
	for name, limit := range kinds(10, time.Hour) {
		for suffix, limit := range map[string]ratelimit.Limit{"": limit, " of several": limit.And(ratelimit.SlidingCounter(20, 2*time.Hour))} {
			t.Run(name+suffix, func(t *testing.T) {
				t.Parallel()
				client := redis.NewClient(&redis.Options{Addr: shared.Addr, ContextTimeoutEnabled: true})
				t.Cleanup(func() { _ = client.Close() })
				hook := &holdsReply{make(chan struct{}, 1), make(chan struct{}), make(chan struct{})}
				inner := core.Must(redisstore.New(client, redisstore.Config{Prefix: prefix(), Timeout: 10 * time.Second}))
				store := &scripted{Store: inner}
				l := newLimiter(t, newStore(t, store, Config{}), limit)
				take(t, l, "k", 1)
				client.AddHook(hook)
				hook.armed <- struct{}{}
				over := make(chan struct{})
				go func() {
					defer close(over)
					_, _ = l.Take(context.Background(), "k", 1)
				}()
				<-hook.held
				take(t, l, "k", 5)
				close(hook.released)
				<-over
				store.fail(func(string) error { return ratelimittest.ErrDown }, nil)
				require.EqualValues(t, 3, takeAll(t, l, "k"))
			})
		}
	}
}

// A holdsReply is a hook that holds back the reply to the next command once it is armed.
type holdsReply struct {
	armed    chan struct{} // has a value for each reply to hold
	held     chan struct{} // a reply is held
	released chan struct{} // closed when it goes on
}

func (*holdsReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*holdsReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *holdsReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		select {
		case <-h.armed:
			h.held <- struct{}{}
			<-h.released
		default:
		}
		return err
	}
}

// TestAShareOfACluster: while one server is lost, the keys of the others are decided there, and the
// debts are charged to the server of each key when that is back.
func TestAShareOfACluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	proxies := map[string]*redistest.Proxy{}
	for _, s := range servers {
		proxies[s.Addr] = redistest.StartProxy(t, s.Addr)
	}
	for _, mode := range []redisstore.Mode{redisstore.Strict, redisstore.Coalesced} {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: servers.Addrs(), ContextTimeoutEnabled: true,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, proxies[addr].Addr)
			},
		})
		t.Cleanup(func() { _ = client.Close() })
		inner := core.Must(redisstore.New(client, redisstore.Config{Prefix: prefix(), Mode: mode, Timeout: time.Second}))
		l := newLimiter(t, newStore(t, core.Must(denycache.New(inner, denycache.Config{})), Config{}), ratelimit.PerHour(100))
		var local, remote []string
		lost := servers.Addrs()[0]
		isLocal := func(key string) bool {
			r, err := l.Peek(context.Background(), key)
			require.NoError(t, err)
			return r.Receipt.At < 0
		}
		for i := range 12 {
			key := fmt.Sprint(i)
			require.Eventually(t, func() bool { return !isLocal(key) }, time.Minute, 10*time.Millisecond)
			take(t, l, key, 1)
		}
		proxies[lost].Cut()
		for i := range 12 {
			key := fmt.Sprint(i)
			before := take(t, l, key, 0).Remaining
			r := take(t, l, key, 29)
			require.True(t, r.Allowed)
			require.LessOrEqual(t, r.Remaining, before-29, "it begins with what is known")
			if r.Receipt.At < 0 {
				local = append(local, key)
			} else {
				remote = append(remote, key)
			}
		}
		require.NotEmpty(t, local)
		require.NotEmpty(t, remote)
		require.EqualValues(t, 29*len(local), storeOf(l).owing.Load())
		proxies[lost].Resume()
		require.Eventually(t, func() bool { return storeOf(l).owing.Load() == 0 }, time.Minute, 10*time.Millisecond)
		for _, key := range slices.Concat(local, remote) {
			require.Eventually(t, func() bool { return !isLocal(key) }, time.Minute, 10*time.Millisecond)
			require.LessOrEqual(t, take(t, l, key, 0).Remaining, int64(70), key)
		}
	}
}
