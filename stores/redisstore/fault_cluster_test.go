package redisstore

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/tcpproxy"
)

// TestANodeOfAClusterIsLost: decisions on keys of the others go on, and wait for nothing.
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
					key := strconv.Itoa(i)
					for _, limiter := range []string{"denying", "allowing"} {
						master, err := client.MasterForKey(t.Context(), keyName(keyPrefix(DefaultPrefix, limiter), key, false))
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

				const limit = 300
				s := newStore(t, client, Config{Mode: mode, Timeout: 500 * time.Millisecond})
				l := startLoad(t, s, ratelimit.PerHour(limit), keys...)
				l.until(&l.decided, 300)
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
				require.Less(t, during[len(during)/2], 100*time.Millisecond, "they wait for nothing: %s", spread(during))

				if all[servers[0].Addr].Resume(); name == "killed" {
					require.NoError(t, servers[0].Restart())
				}
				began := time.Now()
				require.Eventually(t, func() bool {
					r, err := l.denying.Take(context.Background(), keys[0], 1)
					return err == nil && r.Limit == limit
				}, 30*time.Second, 10*time.Millisecond)
				t.Logf("%s %v: the others before: %s\nwhile it is lost: %s\nback after %v", name, mode, spread(before), spread(during), time.Since(began))
				l.stop()
				l.within(limit * int64(len(servers)+1))
			})
		})
	}
}
