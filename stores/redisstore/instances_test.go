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

func TestInstancesAreCounted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	stores, _ := localLimiters(t, srv, 3, Strict, ratelimit.PerHour(10))
	denying(t, srv, ratelimit.PerHour(10)) // which does not count
	require.NoError(t, stores[0].Close())
	counted(t, stores[1:], 2)
	const key = DefaultPrefix + ":{instances}"
	require.EqualValues(t, 2, client.ZCard(ctx, key).Val(), "it left")

	now, err := client.Time(ctx).Result()
	require.NoError(t, err)
	require.NoError(t, client.ZAdd(ctx, key, redis.Z{Member: "crashed", Score: float64(now.UnixMicro() - epoch)}).Err())
	counted(t, stores[1:], 3)
	counted(t, stores[1:], 2)

	require.NoError(t, stores[1].Close())
	require.NoError(t, stores[2].Close())
	require.Zero(t, client.Exists(ctx, key).Val())
}

// TestTheSetOfInstancesOutlivesThem: what is known of them is there for hours after the last beat,
// and nothing of it when all have left.
func TestTheSetOfInstancesOutlivesThem(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	client := srv.client(t)
	stores, _ := localLimiters(t, srv, 2, Strict, ratelimit.PerHour(10))
	const key = DefaultPrefix + ":{instances}"
	ttl := client.PTTL(ctx, key).Val()
	for _, s := range stores {
		require.NoError(t, s.Close())
	}
	require.Zero(t, client.Exists(ctx, key).Val())
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
	n, err := s.instances.send(ctx, beatLife)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	at := s.nodeOf(DefaultPrefix + ":{instances}")
	require.NotSame(t, s.first, at)
	require.NoError(t, at.guard.SetState(breaker.ForcedOpen))
	_, err = s.instances.send(ctx, beatLife)
	require.ErrorIs(t, err, ErrAway)
	require.NoError(t, at.guard.SetState(breaker.Closed))
}

// TestInstancesOfAServerThatForgot: when it comes back empty, the first to beat is not alone.
func TestInstancesOfAServerThatForgot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := startServer(t)
	s := newStore(t, srv.client(t), Config{})
	in := s.instances
	in.id = "me"
	require.NoError(t, srv.client(t).ZAdd(ctx, DefaultPrefix+":{instances}", redis.Z{Member: "other", Score: 1e18}).Err())
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 2, in.count())
	srv.Kill()
	require.False(t, in.beat(ctx))
	require.NoError(t, srv.Restart())
	require.Eventually(t, func() bool { return in.beat(ctx) }, 20*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 2, in.count())
	in.since = in.since.Add(-in.life)
	require.True(t, in.beat(ctx))
	require.EqualValues(t, 1, in.count())
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
