package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/stores/share"
)

const instancesKey = defaultPrefix + ":{=l:instances}"

// localLimiter is a limiter named l, with a share of a store.
func localLimiter(t *testing.T, s *Store, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	shared := core.Must(share.New(s, share.Config{}))
	t.Cleanup(func() { _ = shared.Close() })
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: shared, Limit: limit, OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	return l
}

// instancesOf are the tables of stores of their own, on one server, that know of each other.
func instancesOf(tb testing.TB, srv server, n int, names ...string) (tables []*table) {
	tb.Helper()
	for range n {
		s := newStore(tb, srv.client(tb), Config{})
		s.every, s.life = 20*time.Millisecond, time.Second
		for _, name := range append(names, "l") {
			tables = append(tables, open(tb, s, name).(*table)) //nolint:forcetypeassert // it is one of ours
		}
	}
	counted(tb, tables, n)
	return tables
}

// counted waits until tables count n instances.
func counted(tb testing.TB, tables []*table, n int) {
	tb.Helper()
	for _, one := range tables {
		one.Instances() // from now on it beats
	}
	for _, one := range tables {
		require.Eventually(tb, func() bool { got, _, _ := one.Instances(); return got == int64(n) }, busy, 5*time.Millisecond)
	}
}

// serverTime is the time of the server, as scripts have it.
func serverTime(tb testing.TB, client *redis.Client) float64 {
	tb.Helper()
	now, err := client.Time(context.Background()).Result()
	require.NoError(tb, err)
	return float64(now.UnixMicro() - epoch)
}

func TestInstancesAreCounted(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) { // an instance that stands still for a second does not count
		ctx := context.Background()
		srv := startServer(t)
		client := srv.client(t)
		tables := instancesOf(t, srv, 3)
		take(t, open(t, newStore(t, srv.client(t), Config{}), "l"), "k", ratelimit.PerHour(10), 1) // which does not count
		require.Eventually(t, func() bool {                                                        // each has a rank of its own
			ranks := 0
			for _, one := range tables {
				_, rank, _ := one.Instances()
				ranks |= 1 << rank
			}
			return ranks == 7
		}, busy, 5*time.Millisecond)
		_, _, now := tables[0].Instances()
		require.InDelta(t, serverTime(t, client), now.Microseconds(), float64(patient.Microseconds()))
		require.Equal(t, 3, tables[0].store.Stats().Instances)
		require.NoError(t, tables[0].store.Close())
		counted(t, tables[1:], 2)
		require.EqualValues(t, 2, client.ZCard(ctx, instancesKey).Val(), "it left")

		require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "crashed", Score: serverTime(t, client)}).Err())
		counted(t, tables[1:], 3)
		counted(t, tables[1:], 2)

		require.NoError(t, tables[1].store.Close())
		require.NoError(t, tables[2].store.Close())
		require.Zero(t, client.Exists(ctx, instancesKey).Val())
	})
}

// TestTheSetOfInstancesOutlivesThem: what is known of them is there for hours after the last beat,
// and nothing of it when all have left.
func TestTheSetOfInstancesOutlivesThem(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	tables := instancesOf(t, srv, 2)
	ttl := client.PTTL(ctx, instancesKey).Val()
	for _, one := range tables {
		require.NoError(t, one.store.Close())
	}
	require.Zero(t, client.Exists(ctx, instancesKey).Val())
	require.Greater(t, ttl, time.Hour)
}

// TestInstancesOfACluster: the beat is one to the server of its key, whatever the others are.
func TestInstancesOfACluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, client := startCluster(t, nil)
	s := newStore(t, client, Config{})
	one := open(t, s, "l").(*table)             //nolint:forcetypeassert // it is one of ours
	take(t, one, "k", ratelimit.PerHour(10), 1) // from now on it is known which servers there are
	require.NoError(t, s.first.guard.SetState(breaker.ForcedOpen))
	n, _, err := one.sendBeat(ctx, beatLife)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	at := s.nodeOf(instancesKey)
	require.False(t, s.first == at)
	require.NoError(t, at.guard.SetState(breaker.ForcedOpen))
	_, _, err = one.sendBeat(ctx, beatLife)
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, at.guard.SetState(breaker.Closed))
}

// TestInstancesAreThoseOfATable: a service with a limiter of another name has no part in it.
func TestInstancesAreThoseOfATable(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	first, second := newStore(t, srv.client(t), Config{}), newStore(t, srv.client(t), Config{})
	for name, s := range map[string]*Store{"one": first, "other": second} {
		one := open(t, s, name).(*table) //nolint:forcetypeassert // it is one of ours
		require.True(t, one.beat(t.Context()))
		n, _, _ := one.Instances()
		require.EqualValues(t, 1, n)
	}
	both := open(t, second, "one").(*table) //nolint:forcetypeassert // it is one of ours
	require.True(t, both.beat(t.Context()))
	n, _, _ := both.Instances()
	require.EqualValues(t, 2, n)
	require.Equal(t, 2, second.Stats().Instances, "of the table with the most")
}

// TestInstancesOfAServerThatForgot: it may come back empty between two beats, or miss some; the
// first to beat is not alone.
func TestInstancesOfAServerThatForgot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	one := open(t, newStore(t, client, Config{}), "l").(*table) //nolint:forcetypeassert // it is one of ours
	one.beats.began.Store(true)                                 // only here
	life := one.store.life
	require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "other", Score: serverTime(t, client)}).Err())
	require.True(t, one.beat(ctx))
	require.EqualValues(t, 2, one.beats.n.Load())
	require.NoError(t, client.FlushAll(ctx).Err())
	require.True(t, one.beat(ctx))
	require.True(t, one.beat(ctx))
	require.EqualValues(t, 2, one.beats.n.Load(), "without a miss")
	srv.Kill()
	one.beats.low = one.beats.low.Add(-life)
	require.False(t, one.beat(ctx))
	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool { return one.beat(ctx) }, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 2, one.beats.n.Load(), "a life with one")
	one.beats.low = one.beats.low.Add(-life)
	require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "other", Score: serverTime(t, client)}).Err())
	require.True(t, one.beat(ctx))
	require.NoError(t, client.ZRem(ctx, instancesKey, "other").Err())
	require.True(t, one.beat(ctx))
	require.EqualValues(t, 2, one.beats.n.Load(), "the others were seen meanwhile")
	one.beats.low = one.beats.low.Add(-life)
	require.True(t, one.beat(ctx))
	require.EqualValues(t, 1, one.beats.n.Load())
}

// TestAnInstanceOfTheFutureIsDead: it beat before the clock went back, and does not any more.
func TestAnInstanceOfTheFutureIsDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	one := open(t, newStore(t, client, Config{}), "l").(*table) //nolint:forcetypeassert // it is one of ours
	one.beats.began.Store(true)                                 // only here
	life := one.store.life
	for name, ahead := range map[string]time.Duration{"alive": life / 2, "dead": time.Hour} {
		z := redis.Z{Member: name, Score: serverTime(t, client) + float64(ahead.Microseconds())}
		require.NoError(t, client.ZAdd(ctx, instancesKey, z).Err())
	}
	require.True(t, one.beat(ctx))
	require.EqualValues(t, 2, one.beats.n.Load())
	require.Greater(t, client.PTTL(ctx, instancesKey).Val(), 300*24*time.Hour)
}

func TestLocalLeavesNothingRunning(t *testing.T) { //nolint:paralleltest // it counts goroutines
	srv := startServer(t)
	warm := redis.NewClient(&redis.Options{Addr: srv.Addr}) // which starts what is there once
	require.NoError(t, warm.Ping(context.Background()).Err())
	require.NoError(t, warm.Close())
	before := runtime.NumGoroutine()
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	s := newStore(t, client, Config{Timeout: time.Second})
	shared := core.Must(share.New(s, share.Config{}))
	for i := range 10 {
		l, err := ratelimit.New(ratelimit.Config{Name: fmt.Sprint(i), Store: shared, OnStoreError: ratelimit.Local})
		require.NoError(t, err)
		_, err = l.Take(context.Background(), "k", 1)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+2, "one, and perhaps one of the client")
	require.NoError(t, shared.Close())
	require.NoError(t, client.Close())
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond) // goroutines end by themselves, and cannot be waited for
	}
	t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), before)
}
