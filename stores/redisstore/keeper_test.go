package redisstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/stores/share"
)

const instancesKey = defaultPrefix + ":{instances}"

// localLimiter is a limiter named l, with a share of a store.
func localLimiter(t *testing.T, s *Store, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	shared := core.Must(share.New(s, share.Config{}))
	t.Cleanup(func() { _ = shared.Close() })
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: shared, Limit: limit, OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	return l
}

// counted waits until stores count n instances.
func counted(tb testing.TB, n int, stores ...*Store) {
	tb.Helper()
	instances := func(s *Store) int64 {
		n, _, _ := open(tb, s, "l").(*table).Instances() //nolint:forcetypeassert // it is one of ours
		return n
	}
	for _, s := range stores {
		instances(s) // from now on it beats
	}
	for _, s := range stores {
		require.Eventually(tb, func() bool { return instances(s) == int64(n) }, busy, 5*time.Millisecond)
	}
}

// serverTime is the time of the server, as scripts have it.
func serverTime(tb testing.TB, client *redis.Client) float64 {
	tb.Helper()
	now, err := client.Time(context.Background()).Result()
	require.NoError(tb, err)
	return float64(now.UnixMicro() - epoch)
}

// TestInstances: stores that use one Prefix count each other, with a rank each, whatever their limiters are.
func TestInstances(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) { // an instance that stands still for a second does not count
		ctx := context.Background()
		srv := startServer(t)
		client := srv.client(t)
		var stores []*Store
		for range 3 {
			s := newStore(t, srv.client(t), Config{})
			s.every, s.life = 20*time.Millisecond, time.Second
			stores = append(stores, s)
		}
		counted(t, 3, stores...)
		take(t, open(t, newStore(t, srv.client(t), Config{}), "l"), "k", ratelimit.PerHour(10), 1) // which does not count
		other := newStore(t, srv.client(t), Config{Prefix: "other"})
		counted(t, 1, other)
		require.Eventually(t, func() bool { // each has a rank of its own
			ranks := 0
			for _, s := range stores {
				_, rank, _ := open(t, s, fmt.Sprint(rank(s))).(*table).Instances() //nolint:forcetypeassert // it is one of ours
				ranks |= 1 << rank
			}
			return ranks == 7
		}, busy, 5*time.Millisecond)
		_, _, now := open(t, stores[0], "l").(*table).Instances() //nolint:forcetypeassert // it is one of ours
		require.InDelta(t, serverTime(t, client), now.Microseconds(), float64(patient.Microseconds()))
		require.Equal(t, 3, stores[0].Stats().Instances)
		require.Greater(t, client.PTTL(ctx, instancesKey).Val(), 300*24*time.Hour, "what is known outlives the beats")
		require.NoError(t, stores[0].Close())
		counted(t, 2, stores[1:]...)
		require.EqualValues(t, 2, client.ZCard(ctx, instancesKey).Val(), "it left")

		require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "crashed", Score: serverTime(t, client)}).Err())
		counted(t, 3, stores[1:]...)
		counted(t, 2, stores[1:]...)

		require.NoError(t, stores[1].Close())
		require.NoError(t, stores[2].Close())
		require.Zero(t, client.Exists(ctx, instancesKey).Val())
	})
}

func rank(s *Store) int64 { s.mu.Lock(); defer s.mu.Unlock(); return s.census.rank }

// TestInstancesInACluster: the beat is one to the server of its key, whatever the others are.
func TestInstancesInACluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, client := startCluster(t, nil)
	s := newStore(t, client, Config{})
	take(t, open(t, s, "l"), "k", ratelimit.PerHour(10), 1) // from now on it is known which servers there are
	require.NoError(t, s.first.guard.SetState(breaker.ForcedOpen))
	got, err := s.sendBeat(ctx, patient, beatLife)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.n)
	at := s.nodeOf(instancesKey)
	require.False(t, s.first == at)
	require.NoError(t, at.guard.SetState(breaker.ForcedOpen))
	_, err = s.sendBeat(ctx, patient, beatLife)
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, at.guard.SetState(breaker.Closed))
}

// TestInstancesOfAServerThatForgot: it may come back empty between two beats, or miss some; the
// first to beat is not alone. One that beat before the clock went back is not counted.
func TestInstancesOfAServerThatForgot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	s := newStore(t, client, Config{})
	add := func(name string, ahead time.Duration) {
		t.Helper()
		score := serverTime(t, client) + float64(ahead.Microseconds())
		require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: name, Score: score}).Err())
	}
	beat := func(n int64, why string) {
		t.Helper()
		require.True(t, s.beat(ctx))
		require.Equal(t, n, s.census.n, why)
	}
	add("other", s.life/2)
	add("dead", time.Hour)
	beat(2, "one is further ahead than a life")
	require.NoError(t, client.FlushAll(ctx).Err())
	beat(2, "fewer")
	beat(2, "without a miss")
	srv.Kill()
	s.census.low = s.census.low.Add(-s.life)
	require.False(t, s.beat(ctx))
	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool { return s.beat(ctx) }, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 2, s.census.n, "a life with one")
	s.census.low = s.census.low.Add(-s.life)
	add("other", 0)
	beat(2, "")
	require.NoError(t, client.ZRem(ctx, instancesKey, "other").Err())
	beat(2, "the others were seen meanwhile")
	s.census.low = s.census.low.Add(-s.life)
	beat(1, "after a life")
}

// TestInstancesAtTheStart: instances that begin soon after each other know of each other in a part of the interval, and of
// later ones after it.
func TestInstancesAtTheStart(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.UnixMicro(epoch).AddDate(1, 0, 0)))
		var stores []*Store
		var tables []*table
		for range 4 {
			s := newStore(t, srv.virtual(t), Config{})
			s.clock = time.Now
			stores, tables = append(stores, s), append(tables, open(t, s, "l").(*table)) //nolint:forcetypeassert // it is one of ours
		}
		for i, pause := range []time.Duration{beatSoon / 2, beatSoon, beatEvery / 4, beatEvery} {
			tables[i].Instances()
			time.Sleep(pause)
			n, _, _ := tables[0].Instances()
			require.EqualValues(t, []int64{1, 2, 3, 4}[i], n)
		}
		for _, s := range stores {
			require.NoError(t, s.Close())
		}
	})
}
