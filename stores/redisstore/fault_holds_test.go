package redisstore

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/tcpproxy"
)

// A news counts what a cooldown reports of its store.
type news struct {
	mu                sync.Mutex
	failed, recovered int
	err               error
}

func (n *news) listen(c *cooldown.Config) {
	c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
		n.mu.Lock()
		defer n.mu.Unlock()
		switch e.Text {
		case "cooldown store failed":
			n.failed++
			n.err = e.Err()
		case "cooldown store recovered":
			n.recovered++
		}
	})
}

// await waits until the store has failed once and recovered so often.
func (n *news) await(t *testing.T, recovered int) error {
	t.Helper()
	require.Eventually(t, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.failed == 1 && n.recovered == recovered
	}, patient, time.Millisecond, "%+v", n)
	return n.err
}

// eachWay runs a test with messages and without.
func eachWay(t *testing.T, f func(t *testing.T, prepare func(*testing.T, server))) {
	t.Helper()
	for name, prepare := range map[string]func(*testing.T, server){"pushed": func(*testing.T, server) {}, "polled": deaf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, prepare)
		})
	}
}

// TestHoldsOutliveTheServer: with the server killed, holds stay in force, and new ones hold this
// process. When it is back, without its data, all are told again, and one hook is called for each
// change.
func TestHoldsOutliveTheServer(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, prepare func(*testing.T, server)) {
		t.Helper()
		leavesNothing(t)
		srv := startServer(t)
		prepare(t, srv)
		var n news
		a, b := newShared(t, srv.client(t), Config{}, n.listen), newShared(t, srv.client(t), Config{})
		use(t, a, "k")
		use(t, b, "k")
		a.Hold(t.Context(), "before", time.Hour)
		require.Eventually(t, isHeld(b, "before"), patient, time.Millisecond)
		srv.Kill()
		a.Hold(t.Context(), "meanwhile", time.Hour)
		a.Hold(t.Context(), "over", 50*time.Millisecond)
		require.ErrorContains(t, n.await(t, 0), "redisstore: the server cannot be reached")
		require.True(t, isHeld(a, "meanwhile")())
		require.True(t, isHeld(b, "before")())
		use(t, a, "k")
		require.EqualValues(t, 1, a.Stats().StoreFailures)
		require.NoError(t, srv.Restart())
		prepare(t, srv)
		_ = n.await(t, 1)
		require.Eventually(t, isHeld(b, "meanwhile"), patient, time.Millisecond)
		late := newShared(t, srv.client(t), Config{})
		use(t, late, "k")
		for _, key := range []string{"before", "meanwhile"} {
			require.Eventually(t, isHeld(late, key), patient, time.Millisecond, key)
		}
		use(t, late, "over")
	})
}

// TestALostHoldIsToldAgain: after a FLUSHALL no process needs to be told again, but a new one knows.
func TestALostHoldIsToldAgain(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, prepare func(*testing.T, server)) {
		t.Helper()
		srv := startServer(t)
		prepare(t, srv)
		client := srv.client(t)
		a := newShared(t, client, Config{})
		a.Hold(t.Context(), "k", time.Hour)
		exists := func() bool { return client.Exists(t.Context(), "gresil:{cooldowns}:=vendor").Val() == 1 }
		require.Eventually(t, exists, patient, time.Millisecond)
		_, err := srv.Do("flushall")
		require.NoError(t, err)
		require.Eventually(t, exists, patient, time.Millisecond)
	})
}

// TestALostHoldIsToldAgainBesideAShorterOne: after a FLUSHALL another process is the first to tell its
// hold of the same key, which is shorter.
func TestALostHoldIsToldAgainBesideAShorterOne(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	const set = "gresil:{cooldowns}:=vendor"
	a := newShared(t, client, Config{})
	a.Hold(t.Context(), "k", 9*time.Minute)
	require.Eventually(t, func() bool { return client.ZCard(t.Context(), set).Val() == 1 }, patient, time.Millisecond)
	now, err := client.Time(t.Context()).Result()
	require.NoError(t, err)
	till := float64(now.Add(time.Minute).UnixMicro() - epoch)
	require.NoError(t, client.ZAdd(t.Context(), set, redis.Z{Score: till, Member: "=k"}).Err())
	require.Eventually(t, func() bool { return client.ZScore(t.Context(), set, "=k").Val() > till }, patient, time.Millisecond)
}

// TestNoCallWaitsForTheStoreLonger: whatever the network does, from the start or later, a call waits
// for Timeout at most, and only the first one. The others know the holds when it is over.
func TestNoCallWaitsForTheStoreLonger(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	for name, fail := range map[string]func(*tcpproxy.Proxy){
		"cut":       (*tcpproxy.Proxy).Cut,
		"half-open": (*tcpproxy.Proxy).Swallow,
		"slow":      func(p *tcpproxy.Proxy) { p.Delay(400 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, prepare func(*testing.T, server)) {
				t.Helper()
				leavesNothing(t)
				srv := startServer(t)
				prepare(t, srv)
				proxy, err := tcpproxy.Start(srv.Addr)
				require.NoError(t, err)
				t.Cleanup(proxy.Close)
				client := srv.client(t, func(o *redis.Options) { o.Addr = proxy.Addr })
				a, near := newShared(t, client, Config{Timeout: timeout}), newShared(t, srv.client(t), Config{})
				use(t, near, "k")
				waits := func(c *cooldown.Cooldown, calls int) (n int) {
					for range calls {
						begun := time.Now()
						use(t, c, "k")
						took := time.Since(begun)
						require.Less(t, took, timeout+busy)
						if took >= timeout/2 {
							n++
						}
					}
					return n
				}
				const standstills = 2 // of the machine, which look the same
				use(t, a, "k")
				fail(proxy)
				require.LessOrEqual(t, waits(a, 10_000), 1+standstills)
				late := newShared(t, client, Config{Timeout: timeout})
				waits(late, 1)
				require.LessOrEqual(t, waits(late, 2_000), standstills)
				a.Hold(t.Context(), "meanwhile", time.Hour)
				require.True(t, isHeld(a, "meanwhile")())
				proxy.Resume()
				proxy.Delay(0)
				require.Eventually(t, isHeld(near, "meanwhile"), patient, time.Millisecond)
				near.Hold(t.Context(), "after", time.Hour)
				for _, c := range []*cooldown.Cooldown{a, late} {
					require.Eventually(t, func() bool { use(t, c, "k"); return isHeld(c, "after")() }, patient, time.Millisecond)
				}
			})
		})
	}
}

// TestAServerThatIsNotThere: a cooldown begins without one. A hold reaches the server when it comes.
func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	srv.Kill()
	var n news
	a := newShared(t, srv.client(t), Config{Timeout: 200 * time.Millisecond}, n.listen)
	begun := time.Now()
	use(t, a, "k")
	require.Less(t, time.Since(begun), busy)
	patiently := newShared(t, srv.client(t), Config{Timeout: time.Hour})
	use(t, patiently, "k") // it waits no longer than until the server was found unavailable
	a.Hold(t.Context(), "k", time.Hour)
	require.Error(t, n.await(t, 0))
	require.NoError(t, srv.Restart())
	_ = n.await(t, 1)
	late := newShared(t, srv.client(t), Config{})
	require.Eventually(t, func() bool { use(t, late, "other"); return isHeld(late, "k")() }, patient, time.Millisecond)
}

// TestAValueOfAnotherProgram is reported, and the cooldown holds for itself until it is deleted.
func TestAValueOfAnotherProgram(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	const set = "gresil:{cooldowns}:=vendor"
	require.NoError(t, client.Set(t.Context(), set, "x", 0).Err())
	var n news
	a := newShared(t, client, Config{}, n.listen)
	use(t, a, "k")
	require.ErrorContains(t, n.await(t, 0), "redisstore: another program has written to the key: WRONGTYPE")
	a.Hold(t.Context(), "k", time.Hour)
	require.True(t, isHeld(a, "k")())
	name := func(c *cooldown.Config) { c.Name = "other" }
	other, same := newShared(t, client, Config{}, name), core.Must(cooldown.New(cooldown.Config{Name: "other", Store: a.Config().Store}))
	use(t, other, "k")
	use(t, same, "k")
	same.Hold(t.Context(), "k", time.Hour)
	require.Eventually(t, isHeld(other, "k"), patient, time.Millisecond, "another name is not concerned")
	require.NoError(t, client.Del(t.Context(), set).Err())
	_ = n.await(t, 1)
	require.Eventually(t, func() bool { return client.ZCard(t.Context(), set).Val() == 1 }, patient, time.Millisecond)

	require.NoError(t, client.ZAdd(t.Context(), set, redis.Z{Score: 1e300, Member: "=huge"}, redis.Z{Score: 1e17, Member: ""}, redis.Z{Score: 1e17, Member: "-"}, redis.Z{Score: 1e17, Member: "?"}).Err())
	for _, payload := range []string{"", "1 2", "x y z =k", "1 99999999999999999999999 z =far", "1 2 3 "} {
		require.NoError(t, client.Publish(t.Context(), set, payload).Err())
	}
	b := newShared(t, client, Config{})
	require.Eventually(t, func() bool { use(t, b, "other"); return isHeld(b, "k")() }, patient, time.Millisecond)
}

// TestHoldsThroughFaults: two processes hold keys while the server is killed and started, and their
// networks are cut, silent and slow. No hold that a process was told ends early there, and in the end
// both know every hold.
func TestHoldsThroughFaults(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, prepare func(*testing.T, server)) {
		t.Helper()
		leavesNothing(t)
		srv := startServer(t)
		prepare(t, srv)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
		var cools [2]*cooldown.Cooldown
		var proxies [2]*tcpproxy.Proxy
		for i := range cools {
			var err error
			proxies[i], err = tcpproxy.Start(srv.Addr)
			require.NoError(t, err)
			t.Cleanup(proxies[i].Close)
			cools[i] = newShared(t, srv.client(t, func(o *redis.Options) { o.Addr = proxies[i].Addr }), Config{Timeout: 50 * time.Millisecond}, func(c *cooldown.Config) { c.MaxHold = 24 * time.Hour })
		}
		heal := func() {
			for _, p := range proxies {
				p.Resume()
				p.Delay(0)
			}
		}
		const keys = 5
		var told [2][keys]time.Time
		var latest [keys]time.Time
		for range 150 {
			proxy := proxies[random.IntN(2)]
			switch random.IntN(12) {
			case 0:
				srv.Kill()
				require.NoError(t, srv.Restart())
				prepare(t, srv)
			case 1:
				proxy.Cut()
			case 2:
				proxy.Swallow()
			case 3:
				proxy.Delay(time.Duration(random.IntN(200)) * time.Millisecond)
			case 4, 5:
				heal()
			default:
				i, k, d := random.IntN(2), random.IntN(keys), time.Duration(1+random.IntN(600))*time.Minute
				begun := time.Now()
				cools[i].Hold(t.Context(), strconv.Itoa(k), d)
				if told[i][k].Before(begun.Add(d)) {
					told[i][k] = begun.Add(d)
				}
				if latest[k].Before(begun.Add(d)) {
					latest[k] = begun.Add(d)
				}
			}
			for i := range cools {
				begun := time.Now()
				use(t, cools[i], "free")
				require.Less(t, time.Since(begun), busy)
				for k := range keys {
					until, _ := cools[i].Until(strconv.Itoa(k))
					require.False(t, until.Before(told[i][k]), "process %d, key %d", i, k)
				}
			}
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond) // so that holds come at all moments of the faults
		}
		heal()
		for i := range cools {
			for k := range keys {
				var until time.Time
				require.Eventually(t, func() bool {
					use(t, cools[i], "free")
					until, _ = cools[i].Until(strconv.Itoa(k))
					return !until.Before(latest[k])
				}, patient, time.Millisecond, "process %d, key %d", i, k)
				require.WithinDuration(t, latest[k], until, time.Minute, "no later than the news was late")
			}
		}
	})
}

// TestHoldsMoveWithTheirServer: when the server of the holds is killed, they are told to the one that
// takes its place: the new primary of Sentinel, or itself, in a Cluster.
func TestHoldsMoveWithTheirServer(t *testing.T) {
	t.Parallel()
	const set = "gresil:{cooldowns}:=vendor"
	for name, start := range map[string]func(t *testing.T) (client func() redis.UniversalClient, fail func()){
		"sentinel": func(t *testing.T) (func() redis.UniversalClient, func()) {
			t.Helper()
			group, err := redisserver.StartFailover(t.TempDir())
			require.NoError(t, err)
			t.Cleanup(group.Kill)
			return func() redis.UniversalClient {
					return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redisserver.PrimaryName, SentinelAddrs: []string{group.Sentinel.Addr}})
				}, func() {
					group.Primary.Kill()
					require.NoError(t, group.Promote())
				}
		},
		"cluster": func(t *testing.T) (func() redis.UniversalClient, func()) {
			t.Helper()
			servers, client := startCluster(t, nil)
			return func() redis.UniversalClient {
					return redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.Addrs(), ContextTimeoutEnabled: true})
				}, func() {
					master, err := client.MasterForKey(t.Context(), set)
					require.NoError(t, err)
					for _, s := range servers {
						if s.Addr == master.Options().Addr {
							s.Kill()
							require.NoError(t, s.Restart())
						}
					}
				}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leavesNothing(t)
			connect, fail := start(t)
			shared := func() *cooldown.Cooldown {
				client := connect()
				t.Cleanup(func() { _ = client.Close() })
				return newShared(t, client, Config{})
			}
			a, b := shared(), shared()
			use(t, b, "k")
			require.Eventually(t, isPushed(b), patient, time.Millisecond)
			a.Hold(t.Context(), "before", time.Hour)
			require.Eventually(t, isHeld(b, "before"), patient, time.Millisecond)
			fail()
			a.Hold(t.Context(), "meanwhile", time.Hour)
			require.True(t, isHeld(b, "before")())
			require.Eventually(t, func() bool { use(t, b, "k"); return isHeld(b, "meanwhile")() }, 3*patient, time.Millisecond)
			require.Eventually(t, isPushed(b), 3*patient, time.Millisecond)
			late := shared()
			use(t, late, "k")
			for _, key := range []string{"before", "meanwhile"} {
				require.Eventually(t, isHeld(late, key), patient, time.Millisecond, key)
			}
		})
	}
}
