package redisstore

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/tcpproxy"
)

// TestANodeOfAClusterIsLost: decisions on keys of the others go on, and wait for nothing; those on a
// key of the lost one go on with a share. That grants with the server what is left of the limit, and
// once more all if the server comes back empty.
func TestANodeOfAClusterIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redisserver.Server, *tcpproxy.Proxy){
		"killed":    func(s *redisserver.Server, _ *tcpproxy.Proxy) { s.Kill() },
		"half-open": func(_ *redisserver.Server, p *tcpproxy.Proxy) { p.Swallow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				leavesNothing(t)
				var proxies atomic.Pointer[map[string]*tcpproxy.Proxy]
				servers, client := startCluster(t, func(o *redis.ClusterOptions) {
					o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
						var d net.Dialer
						return d.DialContext(ctx, network, (*proxies.Load())[addr].Addr)
					}
				}, "--cluster-require-full-coverage", "no")
				all := map[string]*tcpproxy.Proxy{}
				for _, s := range servers {
					p, err := tcpproxy.Start(s.Addr)
					require.NoError(t, err)
					t.Cleanup(p.Close)
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

				l.round(lost, 20)
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

// TestASlotMovesUnderLoad: each permit is granted once wherever the key is meanwhile, and callers
// see next to nothing of it.
func TestASlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		servers, client := startCluster(t, nil)
		const limit = 3000
		l := startLoad(t, newStore(t, client, Config{Mode: mode, Timeout: 2 * time.Second}), ratelimit.PerHour(limit), "k")
		do := func(s *redisserver.Server, words ...string) string {
			t.Helper()
			reply, err := s.Do(words...)
			require.NoError(t, err, "%q", words)
			return reply
		}
		for _, policy := range []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow} {
			l.until(&l.decided, 200) // not the grants: callers may have used up the limit
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
			l.until(&l.decided, 200) // it is where it was
			require.Equal(t, name, do(from, "cluster", "getkeysinslot", slot, "10"))
			require.Equal(t, "OK", do(from, "migrate", host, port, name, "0", "5000"))
			l.until(&l.decided, 200) // callers are redirected, each time
			require.Equal(t, "1", do(to, "cluster", "countkeysinslot", slot))
			for _, s := range []*redisserver.Server{to, from, servers[(at+2)%len(servers)]} {
				do(s, "cluster", "setslot", slot, "node", toID)
			}
			l.until(&l.decided, 200)
			master, err = client.MasterForKey(t.Context(), name)
			require.NoError(t, err)
			t.Logf("%v %v: slot %s from %s to %s, the client knows of %s", mode, policy, slot, from.Addr, to.Addr, master.Options().Addr)
		}
		for _, policy := range []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow} {
			require.Eventually(t, func() bool {
				r, err := l.limiters[index(policy)].Peek(context.Background(), "k")
				return err == nil && r.Limit == limit && r.Remaining == 0
			}, 30*time.Second, 10*time.Millisecond)
		}
		l.stop()
		t.Logf("%v: %d failed; %s", mode, l.failed.Load(), l.inTime())
		require.LessOrEqual(t, l.failed.Load(), int64(3), "one for each step at most")
		l.within(limit)
		for _, policy := range []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow} {
			require.GreaterOrEqual(t, l.granted[index(policy)].Load(), limit-l.failed.Load(), "%v: only a lost reply is a lost permit", policy)
		}
	})
}
