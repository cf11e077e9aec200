package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

// localLimiters are limiters of stores of their own, on one server, that know of each other.
func localLimiters(t *testing.T, srv server, n int, mode Mode, limit ratelimit.Limit, change ...func(*redis.Options)) (stores []*Store, limiters []*ratelimit.Limiter) {
	t.Helper()
	for range n {
		s := newStore(t, srv.client(t, change...), Config{Mode: mode, Timeout: 300 * time.Millisecond})
		s.instances.every, s.instances.life = 20*time.Millisecond, time.Second
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: limit, OnStoreError: ratelimit.Local})
		require.NoError(t, err)
		s.instances.begin() // as the first decision does
		stores, limiters = append(stores, s), append(limiters, l)
	}
	counted(t, stores, n)
	return stores, limiters
}

func counted(t *testing.T, stores []*Store, n int) {
	t.Helper()
	for _, s := range stores {
		require.Eventually(t, func() bool { return s.instances.count() == int64(n) }, 20*time.Second, 5*time.Millisecond, "%d", s.instances.count())
	}
}

// takeAll takes one by one until it is refused.
func takeAll(t *testing.T, l *ratelimit.Limiter, key string) (n int64) {
	t.Helper()
	for {
		r, err := l.Take(context.Background(), key, 1)
		require.NoError(t, err)
		if !r.Allowed {
			require.NotZero(t, r.RetryAfter)
			return n
		}
		require.EqualValues(t, 1, r.Granted)
		n++
	}
}

// lost has the store of a limiter find out that the server is away.
func lost(t *testing.T, s *Store, l *ratelimit.Limiter) {
	t.Helper()
	for s.first.held.Load() == 0 {
		_, err := l.Peek(context.Background(), "lost")
		require.NoError(t, err)
	}
}

// remaining is what a store that knows nothing finds at the server; -1 while it is away.
func remaining(l *ratelimit.Limiter, key string) int64 {
	r, err := l.Peek(context.Background(), key)
	if err != nil {
		return -1
	}
	return r.Remaining
}

func denying(t *testing.T, srv server, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: newStore(t, srv.client(t), Config{}), Limit: limit, OnStoreError: ratelimit.Deny})
	require.NoError(t, err)
	return l
}

func TestLocalSharesTogetherAreTheLimit(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		for _, mode := range []Mode{Strict, Coalesced} {
			t.Run(fmt.Sprint(n, mode), func(t *testing.T) {
				t.Parallel()
				srv := startServer(t)
				_, limiters := localLimiters(t, srv, n, mode, ratelimit.PerHour(1))
				type tier struct {
					l   *ratelimit.Limiter
					key string
				}
				tiers := map[string][]tier{}
				for name, limit := range kinds(100, time.Hour) {
					for _, l := range limiters {
						l, err := l.WithLimit(limit)
						require.NoError(t, err)
						tiers[name] = append(tiers[name], tier{l, name})
					}
				}
				srv.Kill()
				for name, all := range tiers {
					sum := int64(0)
					for _, one := range all {
						sum += takeAll(t, one.l, one.key)
					}
					require.LessOrEqual(t, sum, int64(100), name)
					require.Greater(t, sum, int64(80), name)
				}
			})
		}
	}
}

func TestLocalBeginsWithWhatIsKnown(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		srv := startServer(t)
		_, limiters := localLimiters(t, srv, 2, mode, ratelimit.PerHour(1))
		limits := kinds(100, time.Hour)
		limits["two"] = ratelimit.FixedWindow(10, 200*time.Millisecond).And(ratelimit.FixedWindow(100, time.Hour))
		tiers := map[string][]*ratelimit.Limiter{}
		for name, limit := range limits {
			for _, l := range limiters {
				l, err := l.WithLimit(limit)
				require.NoError(t, err)
				tiers[name] = append(tiers[name], l)
			}
		}
		for name, all := range tiers {
			for taken := int64(0); taken < 90; {
				r, err := all[0].TakeAtMost(ctx, name, min(10, 90-taken))
				require.NoError(t, err)
				require.NotZero(t, r.Limit)
				if taken += r.Granted; r.Granted == 0 {
					time.Sleep(r.RetryAfter) // the shorter of "two"
				}
			}
			_, err := all[1].Peek(ctx, name)
			require.NoError(t, err)
		}
		srv.Kill()
		for name, all := range tiers {
			sum := int64(0)
			for name == "two" { // each short window, until the long one refuses
				r, err := all[0].Take(ctx, name, 1)
				require.NoError(t, err)
				if sum += r.Granted; r.Allowed {
					continue
				} else if r.RetryAfter > time.Second {
					break
				}
				time.Sleep(r.RetryAfter)
			}
			sum += takeAll(t, all[0], name) + takeAll(t, all[1], name)
			require.LessOrEqual(t, sum, int64(10), name)
			require.Greater(t, sum, int64(7), name)
		}
	})
}

// TestLocalWindowEndsWithThatOfTheServer: what is known of a window holds to its end, and a
// bucket is repaid.
func TestLocalWindowEndsWithThatOfTheServer(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	const period = 4 * time.Second
	_, limiters := localLimiters(t, srv, 1, Strict, ratelimit.FixedWindow(100, period))
	bucket, err := limiters[0].WithLimit(ratelimit.TokenBucket(100, period, 100))
	require.NoError(t, err)
	start := time.Now()
	require.EqualValues(t, 100, takeAll(t, limiters[0], "k"))
	took := time.Since(start)
	r, err := bucket.TakeAtMost(context.Background(), "b", 100)
	require.NoError(t, err)
	require.EqualValues(t, 100, r.Granted)
	at := time.Now()
	srv.Kill()
	r, err = limiters[0].Take(context.Background(), "k", 1)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.LessOrEqual(t, time.Since(start)+r.RetryAfter, period+took+time.Second)
	r, err = bucket.Peek(context.Background(), "b")
	require.NoError(t, err)
	require.LessOrEqual(t, r.Remaining, int64(100*time.Since(at)/period))
	require.LessOrEqual(t, time.Since(at)+r.FullAfter, period+time.Second)
}

func TestLocalIsPushedBack(t *testing.T) {
	t.Parallel()
	for name, limit := range kinds(100, time.Hour) {
		for _, mode := range []Mode{Strict, Coalesced} {
			t.Run(fmt.Sprint(name, mode), func(t *testing.T) {
				t.Parallel()
				ctx := context.Background()
				srv := startServer(t)
				stores, limiters := localLimiters(t, srv, 2, mode, limit)
				fresh := denying(t, srv, limit)
				srv.Kill()
				for _, l := range limiters {
					for _, key := range []string{"a", "b"} {
						r, err := l.Take(ctx, key, 30)
						require.NoError(t, err)
						require.True(t, r.Allowed)
						require.EqualValues(t, 50, r.Limit, "the share")
					}
				}
				require.NoError(t, srv.Restart())
				require.Eventually(t, func() bool { return remaining(fresh, "a") == 40 && remaining(fresh, "b") == 40 }, 20*time.Second, 10*time.Millisecond,
					"%d %d", remaining(fresh, "a"), remaining(fresh, "b"))
				for _, s := range stores {
					table := tableOf(s)
					require.Eventually(t, func() bool { return table.owing.Load() == 0 }, 20*time.Second, time.Millisecond)
				}
				r, err := fresh.Take(ctx, "a", 41)
				require.NoError(t, err)
				require.False(t, r.Allowed)
				require.EqualValues(t, 40, takeAll(t, fresh, "a"))
			})
		}
	}
}

// tableOf is what decides for the one limiter of a store.
func tableOf(s *Store) *local {
	s.instances.mu.Lock()
	defer s.instances.mu.Unlock()
	return s.instances.locals[0]
}

// TestLocalIsPushedBeforeTheNextDecision: without the goroutine too.
func TestLocalIsPushedBeforeTheNextDecision(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	s := newStore(t, srv.client(t), Config{Timeout: 300 * time.Millisecond})
	s.instances.every = time.Hour
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	s.instances.close() // its goroutine ends
	for _, key := range []string{"k", "lost"} {
		_, err = l.Peek(ctx, key)
		require.NoError(t, err)
	}
	srv.Kill()
	r, err := l.Take(ctx, "k", 30)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	require.EqualValues(t, 1, tableOf(s).owing.Load())
	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool {
		r, err = l.Take(ctx, "k", 71)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		return tableOf(s).owing.Load() == 0
	}, 20*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 70, remaining(denying(t, srv, ratelimit.PerHour(100)), "k"))
}

// quiet is a table with a share, of a store that does nothing by itself.
func quiet(t *testing.T, client *redis.Client) (*local, driver.ID) {
	t.Helper()
	s := newStore(t, client, Config{})
	s.instances.id, s.instances.stop = "me", func() {}
	table := open(t, s, "t").(*table) //nolint:forcetypeassert // it is ours
	id, err := table.Plan(ratelimit.PerHour(100).Specs())
	require.NoError(t, err)
	return table.Local().(*local), id //nolint:forcetypeassert // it is ours
}

// letThrough has many keys owe, as after a time without the server.
func letThrough(t *testing.T, l *local, id driver.ID, keys int) {
	t.Helper()
	for i := range keys {
		_, err := l.Apply(context.Background(), fmt.Sprint(i), id, driver.Op{Cost: 1})
		require.NoError(t, err)
	}
}

// TestLocalBeatsWhileItPushes: else one that has much to push is taken for dead.
func TestLocalBeatsWhileItPushes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	l, id := quiet(t, client)
	letThrough(t, l, id, 2*maxBatch)
	due := make(chan time.Time, 1)
	due <- time.Now()
	l.table.store.instances.due = &time.Ticker{C: due}
	require.NoError(t, l.pushAll(ctx))
	require.Zero(t, l.owing.Load())
	require.EqualValues(t, 1, client.ZCard(ctx, instancesKey).Val())
}

// TestLocalPushesWhatItCan: what fails does not keep back the rest, and is not tried with each decision.
func TestLocalPushesWhatItCan(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	l, id := quiet(t, client)
	bad := "0"
	for i := 1; l.shard(bad) != &l.shards[0]; i++ { // it is among the first
		bad = fmt.Sprint(i)
	}
	require.NoError(t, client.HSet(ctx, l.table.keyName(bad), "of another", "type").Err())
	letThrough(t, l, id, 10*maxBatch)
	l.table.store.instances.due = &time.Ticker{}
	require.Error(t, l.pushAll(ctx))
	require.LessOrEqual(t, l.owing.Load(), int64(maxBatch))
	require.Positive(t, l.owing.Load())

	s := newStore(t, client, Config{})
	s.instances.every = time.Hour
	limiter, err := ratelimit.New(ratelimit.Config{Name: "t", Store: s, Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	_, err = limiter.Take(ctx, bad, 1)
	require.NoError(t, err)
	before := s.counters.sent.Load()
	const decisions = 200
	for range decisions {
		_, err = limiter.Peek(ctx, "good")
		require.NoError(t, err)
	}
	require.LessOrEqual(t, s.counters.sent.Load()-before, uint64(decisions+2))
	require.EqualValues(t, 1, tableOf(s).owing.Load())
}

// TestLocalPushesBeforeItEnds: a process that ends takes its debts along only if the server is away.
func TestLocalPushesBeforeItEnds(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	s := newStore(t, srv.client(t), Config{})
	s.instances.every = time.Hour
	_, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	_, err = tableOf(s).Apply(context.Background(), "k", 1, driver.Op{Cost: 60}) // as while it was away
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.EqualValues(t, 40, remaining(denying(t, srv, ratelimit.PerHour(100)), "k"))
	require.Zero(t, srv.client(t).Exists(context.Background(), instancesKey).Val())
}

// A cable is what connects a client; it can be cut.
type cable struct{ cut atomic.Bool }

type wire struct {
	net.Conn
	cable *cable
}

var errCut = errors.New("cut")

func (w wire) Write(b []byte) (int, error) {
	if w.cable.cut.Load() {
		return 0, errCut
	}
	return w.Conn.Write(b)
}

func (c *cable) through(o *redis.Options) { o.Dialer = c.dial }

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return wire{conn, c}, err
}

// TestLocalAndAServerThatComesAndGoes: no flap is worth a new budget.
func TestLocalAndAServerThatComesAndGoes(t *testing.T) {
	t.Parallel()
	for name, limit := range kinds(100, time.Hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			srv := startServer(t)
			var cable cable
			_, limiters := localLimiters(t, srv, 2, Strict, limit, cable.through)
			sum := int64(0)
			for flap := range 3 {
				cable.cut.Store(true)
				for _, l := range limiters {
					r, err := l.TakeAtMost(ctx, "k", 20)
					require.NoError(t, err)
					sum += r.Granted
				}
				cable.cut.Store(false)
				if flap == 1 {
					continue // before anybody has seen that it is back
				}
				for _, l := range limiters {
					require.Eventually(t, func() bool {
						r, err := l.Peek(ctx, "k")
						return err == nil && r.Limit == 100 // not a share
					}, 20*time.Second, 10*time.Millisecond)
				}
			}
			for _, l := range limiters {
				sum += takeAll(t, l, "k")
			}
			require.LessOrEqual(t, sum, int64(100))
			require.Greater(t, sum, int64(80))
		})
	}
}

// TestLocalOfACluster: what is owed is pushed to the server of each key, when that is back.
func TestLocalOfACluster(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		var cable cable
		servers, client := startCluster(t, func(o *redis.ClusterOptions) { o.Dialer = cable.dial })
		s := newStore(t, client, Config{Mode: mode, Timeout: 300 * time.Millisecond})
		s.instances.every = 20 * time.Millisecond
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local})
		require.NoError(t, err)
		keys := map[*node]string{} // one on each server
		for i := 0; len(keys) < len(servers); i++ {
			key := fmt.Sprint(i)
			r, err := l.Take(ctx, key, 1)
			require.NoError(t, err)
			require.EqualValues(t, 99, r.Remaining)
			keys[s.nodeOf(tableOf(s).table.keyName(key))] = key
		}
		require.NotContains(t, keys, s.first)
		cable.cut.Store(true)
		for _, key := range keys {
			r, err := l.Take(ctx, key, 29)
			require.NoError(t, err)
			require.True(t, r.Allowed)
			require.EqualValues(t, 70, r.Remaining, "it begins with what is known")
		}
		require.EqualValues(t, len(keys), tableOf(s).owing.Load())
		var lost *node // which is not back when the others are
		for lost = range keys {
			if lost != s.nodeOf(DefaultPrefix+":{instances}") {
				break
			}
		}
		for _, at := range []*node{s.first, lost} {
			require.NoError(t, at.guard.SetState(breaker.ForcedOpen))
		}
		cable.cut.Store(false)
		fresh, err := ratelimit.New(ratelimit.Config{Name: "l", Store: newStore(t, client, Config{}), Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Deny})
		require.NoError(t, err)
		stands := func(at *node, want int64) {
			t.Helper()
			require.Eventually(t, func() bool { return remaining(fresh, keys[at]) == want }, 20*time.Second, 10*time.Millisecond, "%d", remaining(fresh, keys[at]))
		}
		for at := range keys {
			if at != lost {
				stands(at, 70)
			}
		}
		stands(lost, 99)
		require.NoError(t, lost.guard.SetState(breaker.Closed))
		stands(lost, 70)
		require.Eventually(t, func() bool { return tableOf(s).owing.Load() == 0 }, 20*time.Second, time.Millisecond)
		for at := range keys { // while nothing is sent to one, the others decide
			require.Eventually(t, func() bool {
				_ = lost.hold(ErrAway)
				r, err := l.TakeAtMost(ctx, keys[at], 1)
				return err == nil && (r.Receipt.At < 0) == (at == lost)
			}, 5*time.Second, 300*time.Millisecond, "%v", at == lost)
		}
	})
}

// TestLocalAndAServerThatIsAwayForOne: the limit and the share of the one that is cut off, and that
// once, however often it is.
func TestLocalAndAServerThatIsAwayForOne(t *testing.T) {
	t.Parallel()
	for name, limit := range kinds(100, time.Hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			srv := startServer(t)
			var cable cable
			stores, limiters := localLimiters(t, srv, 1, Strict, limit)
			s := newStore(t, srv.client(t, cable.through), Config{Timeout: 300 * time.Millisecond})
			s.instances.every, s.instances.life = 20*time.Millisecond, time.Second
			cut, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: limit, OnStoreError: ratelimit.Local})
			require.NoError(t, err)
			_, err = cut.Peek(ctx, "k") // from the first decision on it counts
			require.NoError(t, err)
			counted(t, append(stores, s), 2)
			sum := int64(0)
			for flap := range 3 {
				cable.cut.Store(true)
				require.Eventually(t, func() bool {
					r, err := cut.Peek(ctx, "k")
					return err == nil && r.Limit == 50
				}, 20*time.Second, 10*time.Millisecond)
				sum += takeAll(t, cut, "k")
				if flap == 0 {
					sum += takeAll(t, limiters[0], "k")
				}
				cable.cut.Store(false)
				require.Eventually(t, func() bool {
					r, err := cut.Peek(ctx, "k")
					return err == nil && r.Limit == 100
				}, 20*time.Second, 10*time.Millisecond)
				sum += takeAll(t, cut, "k") + takeAll(t, limiters[0], "k")
			}
			require.LessOrEqual(t, sum, int64(150))
		})
	}
}

func TestLocalHoldsForASecond(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	s := newStore(t, srv.client(t), Config{Timeout: 300 * time.Millisecond})
	var away atomic.Pointer[time.Time]
	l, err := ratelimit.New(ratelimit.Config{
		Store: s, Limit: ratelimit.PerHour(1000), OnStoreError: ratelimit.Local,
		Hooks: ratelimit.Hooks{StoreFailed: func(_ context.Context, info ratelimit.Info) {
			if now := time.Now(); errors.Is(info.Err, ErrAway) {
				away.CompareAndSwap(nil, &now)
			}
		}},
	})
	require.NoError(t, err)
	srv.Kill()
	for away.Load() == nil {
		_, err := l.Take(ctx, "k", 1)
		require.NoError(t, err)
	}
	require.NoError(t, srv.Restart())
	failed := l.Stats().StoreErrors
	require.GreaterOrEqual(t, failed, uint64(failures))
	require.Eventually(t, func() bool {
		_, err := l.Take(ctx, "k", 1)
		require.NoError(t, err)
		now := l.Stats().StoreErrors
		defer func() { failed = now }()
		return now == failed
	}, 20*time.Second, 10*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(*away.Load()), localHold)
}

func TestLocalWaitsRefundsAndForgets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	stores, limiters := localLimiters(t, srv, 2, Strict, ratelimit.TokenBucket(10, time.Second, 10))
	l := limiters[0]
	hourly, err := l.WithLimit(ratelimit.PerHour(10))
	require.NoError(t, err)
	server, err := hourly.Take(ctx, "server", 4)
	require.NoError(t, err)
	srv.Kill()
	_, err = hourly.Refund(ctx, "server", server)
	require.ErrorIs(t, err, ratelimit.ErrStore, "it is not a take of the share")

	r, err := hourly.Take(ctx, "server", 3)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	require.Zero(t, r.Remaining)
	r, err = hourly.Refund(ctx, "server", r)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Remaining)

	// A wait is one for the share: 5 a second.
	lost(t, stores[0], l)
	r, err = l.Drain(ctx, "w")
	require.NoError(t, err)
	require.InDelta(t, 5, r.Granted, 1)
	r, err = l.Reserve(ctx, "w", 1, time.Second)
	require.NoError(t, err)
	require.Positive(t, r.Wait)
	require.LessOrEqual(t, r.Wait, 200*time.Millisecond)
	_, err = l.Refund(ctx, "w", r)
	require.NoError(t, err)
	start := time.Now()
	r, err = l.Wait(ctx, "w", 1)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), r.Wait)

	// A refund leaves nothing to be pushed.
	r, err = hourly.Take(ctx, "k", 3)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Remaining)
	r, err = hourly.Refund(ctx, "k", r)
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Remaining)
	kept, err := hourly.Take(ctx, "kept", 3)
	require.NoError(t, err)
	require.NoError(t, hourly.Reset(ctx, "k"))
	forgotten, err := hourly.Take(ctx, "forgotten", 4)
	require.NoError(t, err)
	require.True(t, forgotten.Allowed)
	require.NoError(t, hourly.Reset(ctx, "forgotten"))
	r, err = hourly.Peek(ctx, "forgotten")
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Remaining)

	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool { return tableOf(stores[0]).owing.Load() == 0 }, 20*time.Second, 10*time.Millisecond)
	fresh := denying(t, srv, ratelimit.PerHour(10))
	for key, want := range map[string]int64{"k": 10, "server": 10, "kept": 7, "forgotten": 10} {
		require.Equal(t, want, remaining(fresh, key), key)
	}
	_, err = hourly.Refund(ctx, "kept", kept)
	require.NoError(t, err, "it is no take of the server")
	require.EqualValues(t, 7, remaining(fresh, "kept"), "what was pushed stays")
}

// TestLocalBoundsWhatItKnows: more keys than fit are decided too, and pushed as far as they are known.
func TestLocalBoundsWhatItKnows(t *testing.T) {
	t.Parallel()
	s := newStore(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), Config{})
	table := open(t, s, "t").(*table) //nolint:forcetypeassert // it is ours
	id, err := table.Plan(ratelimit.PerHour(2).Specs())
	require.NoError(t, err)
	l := table.Local().(*local) //nolint:forcetypeassert // it is ours
	require.Same(t, l, table.Local(), "twice")
	const keys = localKeys + 10_000
	for i := range keys {
		r, err := l.Apply(context.Background(), fmt.Sprint(i), id, driver.Op{Cost: 1})
		require.NoError(t, err)
		require.True(t, r.Allowed)
	}
	known := 0
	for i := range l.shards {
		known += len(l.shards[i].keys)
	}
	require.LessOrEqual(t, known, localKeys)
	require.EqualValues(t, known, l.owing.Load())
	for range 2 {
		_, err = l.Apply(context.Background(), "0", id, driver.Op{Cost: 1})
		require.NoError(t, err)
	}
	r, err := l.Apply(context.Background(), "0", id, driver.Op{Cost: 1})
	require.NoError(t, err)
	require.False(t, r.Allowed, "memory knows it still")
	_, err = l.Apply(context.Background(), "0", 99, driver.Op{Cost: 1})
	require.ErrorContains(t, err, "no plan 99")
}

func TestSharesAreNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for l, want := range map[ratelimit.Limit]ratelimit.Limit{
		ratelimit.PerMinute(10):                                         ratelimit.PerMinute(3),
		ratelimit.PerSecond(1):                                          ratelimit.FixedWindow(1, 3*time.Second),
		ratelimit.PerSecond(2):                                          ratelimit.FixedWindow(1, 2*time.Second),
		ratelimit.AlignedWindow(2, time.Hour):                           ratelimit.FixedWindow(1, 2*time.Hour),
		ratelimit.SlidingWindow(1, time.Second, 10):                     ratelimit.FixedWindow(1, 3*time.Second),
		ratelimit.TokenBucket(10, time.Second, 20):                      ratelimit.TokenBucket(10, 3*time.Second, 6),
		ratelimit.TokenBucket(9, time.Second, 20):                       ratelimit.TokenBucket(3, time.Second, 6),
		ratelimit.TokenBucket(10, time.Second, 1):                       ratelimit.TokenBucket(10, 3*time.Second, 1),
		ratelimit.FixedWindow(1, ratelimit.MaxPeriod):                   ratelimit.FixedWindow(1, ratelimit.MaxPeriod),
		ratelimit.TokenBucket(7, ratelimit.MaxPeriod, 7):                ratelimit.TokenBucket(2, ratelimit.MaxPeriod, 2),
		ratelimit.SlidingCounter(10, time.Hour):                         ratelimit.SlidingCounter(3, time.Hour),
		ratelimit.TokenBucket(ratelimit.MaxPermits, time.Hour, 1<<38-1): ratelimit.TokenBucket(ratelimit.MaxPermits, 3*time.Hour, (1<<38-1)/3),
	} {
		require.Equal(t, want, share(l, 3), l.String())
		require.Equal(t, l, share(l, 1))
	}
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
	for range 20_000 {
		period := time.Duration(1+rng.Int64N(1<<(1+rng.IntN(30)))) * time.Microsecond
		permits, n := 1+rng.Int64N(1<<(1+rng.IntN(20))), 1+rng.Int64N(300)
		for _, l := range []ratelimit.Limit{ratelimit.FixedWindow(permits, period), ratelimit.SlidingLog(min(permits, ratelimit.MaxLogPermits), period), ratelimit.TokenBucket(permits, period, 1+rng.Int64N(1<<20))} {
			if l.Validate() != nil {
				continue
			}
			s := share(l, n)
			require.NoError(t, s.Validate(), "%v of %d", l, n)
			all := float64(s.Permits*n) / float64(s.Period)
			require.LessOrEqual(t, all, float64(l.Permits)/float64(l.Period)*(1+1e-12), "%v of %d: %v", l, n, s)
			require.LessOrEqual(t, s.Burst, max(1, l.Burst/n))
		}
	}
	// Two that come to be of one kind are one.
	p := &plan{parts: []*part{{limit: ratelimit.FixedWindow(1, 20*time.Second)}, {limit: ratelimit.FixedWindow(100, time.Minute)}}}
	require.Equal(t, ratelimit.PerMinute(1), p.shares(3))
	require.Equal(t, ratelimit.FixedWindow(1, 20*time.Second).And(ratelimit.FixedWindow(100, time.Minute)), p.shares(1))
}

// TestLimitersOfOneNameHaveOneShare: in one store they are one instance.
func TestLimitersOfOneNameHaveOneShare(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	stores, limiters := localLimiters(t, srv, 2, Strict, ratelimit.PerHour(100))
	second, err := ratelimit.New(ratelimit.Config{Name: "l", Store: stores[0], Limit: ratelimit.PerHour(100), OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	srv.Kill()
	require.EqualValues(t, 50, takeAll(t, limiters[0], "k")+takeAll(t, second, "k"))
}

// TestFewerPermitsThanInstances: each begins with none, so that they are never more than the limit
// has from the beginning on.
func TestFewerPermitsThanInstances(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	stores, limiters := localLimiters(t, srv, 3, Strict, ratelimit.PerHour(2))
	var buckets []*ratelimit.Limiter
	for _, l := range limiters {
		b, err := l.WithLimit(ratelimit.TokenBucket(10, time.Second, 1))
		require.NoError(t, err)
		buckets = append(buckets, b)
	}
	srv.Kill()
	for i, s := range stores {
		lost(t, s, limiters[i])
	}
	start := time.Now()
	bucket := int64(0)
	for time.Since(start) < 700*time.Millisecond {
		for i, l := range limiters {
			require.Zero(t, takeAll(t, l, "w"))
			bucket += takeAll(t, buckets[i], "b")
		}
	}
	require.LessOrEqual(t, bucket, int64(1+10*time.Since(start)/time.Second))
	require.Positive(t, bucket)
}

// TestTurnsOfInstances: each has one in so many periods, and in no period there are more than permits.
func TestTurnsOfInstances(t *testing.T) {
	t.Parallel()
	for n := int64(2); n < 20; n++ {
		for permits := int64(1); permits < n; permits++ {
			l := ratelimit.FixedWindow(permits, time.Second)
			had := map[int64]int{}
			for period := range turns(l, n) {
				now, all := (1000*n+period)*1_000_000+1, int64(0)
				for rank := range n {
					wait := turn(l, n, rank, now)
					require.Zero(t, turn(l, n, rank, now+wait.Microseconds()))
					if wait == 0 {
						had[rank]++
						all++
						continue
					}
					require.Equal(t, time.Second-time.Microsecond, wait%time.Second, "from its begin on")
				}
				require.LessOrEqual(t, all, permits, "%d of %d", permits, n)
			}
			require.Len(t, had, int(n))
			for _, times := range had {
				require.Equal(t, 1, times)
			}
		}
	}
	require.Positive(t, turn(ratelimit.FixedWindow(1, ratelimit.MaxPeriod), 1000, 999, 0))
}

// TestInstancesTakeTurns: with fewer permits than instances, those that ask all the time get what
// the limit has, and no more in any period.
func TestInstancesTakeTurns(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	const n, period, permits, periods = 6, time.Second, 2, 60
	for name, limit := range kinds(permits, period) {
		if limit.Algorithm == ratelimit.AlgorithmTokenBucket {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			locals, ids := make([]*local, n), make([]driver.ID, n)
			for i := range locals {
				locals[i], _ = quiet(t, client)
				in := locals[i].table.store.instances
				in.n.Store(n)
				in.rank.Store(int64(i))
				in.ahead.Store(int64(time.Hour / time.Microsecond))
				var err error
				ids[i], err = locals[i].Plan(limit.Specs())
				require.NoError(t, err)
			}
			granted := [periods]int64{}
			for now := range periods * 20 {
				for i, l := range locals {
					r, err := l.Apply(ctx, "k", ids[i], driver.Op{Kind: driver.TakeAtMost, Cost: 5})
					require.NoError(t, err)
					granted[now/20] += r.Granted
				}
				time.Sleep(period / 20)
			}
			require.Zero(t, granted[0], name)
			sum := int64(0)
			for _, one := range granted {
				require.LessOrEqual(t, one, int64(permits), "%s %v", name, granted)
				sum += one
			}
			require.GreaterOrEqual(t, sum, int64(permits*periods*8/10), name)
		})
	}
}
