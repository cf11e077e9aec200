package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
)

const instancesKey = DefaultPrefix + ":{instances}"

// serverTime is the time of the server, as scripts have it.
func serverTime(t *testing.T, client *redis.Client) float64 {
	t.Helper()
	now, err := client.Time(context.Background()).Result()
	require.NoError(t, err)
	return float64(now.UnixMicro() - epoch)
}

func TestInstancesAreCounted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	stores, _ := localLimiters(t, srv, 3, Strict, ratelimit.PerHour(10))
	denying(t, srv, ratelimit.PerHour(10)) // which does not count
	require.Eventually(t, func() bool {    // each has a rank of its own
		ranks := 0
		for _, s := range stores {
			ranks |= 1 << s.instances.rank.Load()
		}
		return ranks == 7
	}, 20*time.Second, 5*time.Millisecond)
	now := serverTime(t, client)
	require.InDelta(t, now, stores[0].instances.now(), 1e6)
	require.NoError(t, stores[0].Close())
	counted(t, stores[1:], 2)
	require.EqualValues(t, 2, client.ZCard(ctx, instancesKey).Val(), "it left")

	require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "crashed", Score: serverTime(t, client)}).Err())
	counted(t, stores[1:], 3)
	counted(t, stores[1:], 2)

	require.NoError(t, stores[1].Close())
	require.NoError(t, stores[2].Close())
	require.Zero(t, client.Exists(ctx, instancesKey).Val())
}

// TestTheSetOfInstancesOutlivesThem: what is known of them is there for hours after the last beat,
// and nothing of it when all have left.
func TestTheSetOfInstancesOutlivesThem(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	stores, _ := localLimiters(t, srv, 2, Strict, ratelimit.PerHour(10))
	ttl := client.PTTL(ctx, instancesKey).Val()
	for _, s := range stores {
		require.NoError(t, s.Close())
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
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(10), OnStoreError: ratelimit.Local})
	require.NoError(t, err)
	_, err = l.Take(ctx, "k", 1) // from now on it is known which servers there are
	require.NoError(t, err)
	require.NoError(t, s.first.guard.SetState(breaker.ForcedOpen))
	n, _, err := s.instances.send(ctx, beatLife)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	at := s.nodeOf(DefaultPrefix + ":{instances}")
	require.NotSame(t, s.first, at)
	require.NoError(t, at.guard.SetState(breaker.ForcedOpen))
	_, _, err = s.instances.send(ctx, beatLife)
	require.ErrorIs(t, err, ErrAway)
	require.NoError(t, at.guard.SetState(breaker.Closed))
}

// TestInstancesOfAServerThatForgot: it may come back empty between two beats, or miss some; the
// first to beat is not alone.
func TestInstancesOfAServerThatForgot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	in := newStore(t, client, Config{}).instances
	in.id = "me"
	require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "other", Score: serverTime(t, client)}).Err())
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 2, in.count())
	require.NoError(t, client.FlushAll(ctx).Err())
	require.True(t, in.beat(ctx))
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 2, in.count(), "without a miss")
	srv.Kill()
	in.low = in.low.Add(-in.life)
	require.False(t, in.beat(ctx))
	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool { return in.beat(ctx) }, 20*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 2, in.count(), "a life with one")
	in.low = in.low.Add(-in.life)
	require.NoError(t, client.ZAdd(ctx, instancesKey, redis.Z{Member: "other", Score: serverTime(t, client)}).Err())
	require.True(t, in.beat(ctx))
	require.NoError(t, client.ZRem(ctx, instancesKey, "other").Err())
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 2, in.count(), "the others were seen meanwhile")
	in.low = in.low.Add(-in.life)
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 1, in.count())
}

// TestAnInstanceOfTheFutureIsDead: it beat before the clock went back, and does not any more.
func TestAnInstanceOfTheFutureIsDead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	in := newStore(t, client, Config{}).instances
	in.id = "me"
	for name, ahead := range map[string]time.Duration{"alive": in.life / 2, "dead": time.Hour} {
		z := redis.Z{Member: name, Score: serverTime(t, client) + float64(ahead.Microseconds())}
		require.NoError(t, client.ZAdd(ctx, instancesKey, z).Err())
	}
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 2, in.count())
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
	for i := range 10 {
		l, err := ratelimit.New(ratelimit.Config{Name: fmt.Sprint(i), Store: s, OnStoreError: ratelimit.Local})
		require.NoError(t, err)
		_, err = l.Take(context.Background(), "k", 1)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before+2, "one, and perhaps one of the client")
	require.NoError(t, s.Close())
	require.NoError(t, client.Close())
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%d goroutines, there were %d", runtime.NumGoroutine(), before)
}
