package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// modes runs a test in both.
func modes(t *testing.T, test func(t *testing.T, mode Mode)) {
	t.Helper()
	for _, mode := range []Mode{Strict, Coalesced} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

func TestScriptsThatTheServerForgot(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := startServer(t).client(t)
		table := open(t, newStore(t, client, Config{Mode: mode}), "flush")
		limits := kinds(1000, time.Hour)
		for round := range 20 {
			var wg sync.WaitGroup
			for name, l := range limits {
				for range 5 {
					wg.Go(func() { take(t, table, name, l, 1) })
				}
			}
			if round%2 == 0 {
				require.NoError(t, client.ScriptFlush(context.Background()).Err())
			}
			wg.Wait()
		}
		for name, l := range limits {
			require.EqualValues(t, 900, take(t, table, name, l, 0).Remaining, "%s: each take counted once", name)
		}
	})
}

func TestRealRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	table := open(t, s, "t")
	id, err := table.Plan(ratelimit.PerHour(10))
	require.NoError(t, err)
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err = table.Apply(ctx, "k", id, ratelimit.Op{Cost: 1})
	require.ErrorContains(t, err, "out of memory")
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	require.NoError(t, client.Do(ctx, "replicaof", "127.0.0.1", "1").Err())
	_, err = table.Apply(ctx, "k", id, ratelimit.Op{Cost: 1})
	require.ErrorContains(t, err, "is a replica")
	require.NoError(t, client.Do(ctx, "replicaof", "no", "one").Err())
	require.EqualValues(t, 9, take(t, table, "k", ratelimit.PerHour(10), 1).Remaining)
}

func TestAwayIsFoundAndForgotten(t *testing.T) {
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
		_, err = deny.Take(ctx, "k", 1)
		require.NoError(t, err)
		srv.Kill()
		for range failures {
			r, err := allow.Take(ctx, "k", 1)
			require.NoError(t, err)
			require.True(t, r.Allowed)
		}
		away := 0
		for range 100 {
			start := time.Now()
			if _, err = deny.Take(ctx, "k", 1); errors.Is(err, ErrAway) {
				away++
				require.Less(t, time.Since(start), 100*time.Millisecond)
			}
			require.ErrorIs(t, err, ratelimit.ErrStore)
			require.NotErrorIs(t, err, core.ErrRejected)
		}
		require.Greater(t, away, 90)
		require.NoError(t, srv.Restart())
		require.Eventually(t, func() bool {
			_, err := deny.Take(ctx, "k", 1)
			return err == nil
		}, 10*time.Second, 10*time.Millisecond)
	})
}

// TestACrashUnderLoad kills the server and starts it again, while callers go on: each is
// answered in time, and the limit of each life of the server holds.
func TestACrashUnderLoad(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		srv := startServer(t)
		const timeout = 250 * time.Millisecond
		s := newStore(t, srv.client(t), Config{Mode: mode, Timeout: timeout})
		table := open(t, s, "crash")
		const limit = 500
		id, err := table.Plan(ratelimit.PerHour(limit))
		require.NoError(t, err)
		var granted, failed, longest atomic.Int64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					start := time.Now()
					r, err := table.Apply(ctx, "k", id, ratelimit.Op{Cost: 1})
					for took := int64(time.Since(start)); ; {
						if old := longest.Load(); took <= old || longest.CompareAndSwap(old, took) {
							break
						}
					}
					if err != nil {
						failed.Add(1)
						time.Sleep(time.Millisecond) // as a service would not spin
						continue
					}
					granted.Add(r.Granted)
				}
			})
		}
		const lives = 3
		for range lives - 1 {
			before := granted.Load()
			require.Eventually(t, func() bool { return granted.Load() >= min(before+1, lives*limit) }, 20*time.Second, time.Millisecond)
			srv.Kill()
			seen := failed.Load()
			require.Eventually(t, func() bool { return failed.Load() > seen+failures }, 20*time.Second, time.Millisecond)
			require.NoError(t, srv.Restart())
		}
		require.Eventually(t, func() bool {
			r, err := table.Apply(ctx, "k", id, ratelimit.Op{})
			return err == nil && r.Remaining == 0
		}, 20*time.Second, 10*time.Millisecond)
		close(stop)
		wg.Wait()
		t.Logf("the longest call took %v", time.Duration(longest.Load()))
		require.Less(t, time.Duration(longest.Load()), timeout+2*time.Second) // the machine may be busy
		require.LessOrEqual(t, granted.Load(), int64(lives*limit))
		require.Greater(t, granted.Load(), int64(limit-100))
	})
}

func TestNothingIsLeftRunning(t *testing.T) { //nolint:paralleltest // it counts goroutines
	for _, mode := range []Mode{Strict, Coalesced} {
		srv := startServer(t)
		warm := redis.NewClient(&redis.Options{Addr: srv.Addr}) // which starts what is there once
		require.NoError(t, warm.Ping(context.Background()).Err())
		require.NoError(t, warm.Close())
		before := runtime.NumGoroutine()
		client := redis.NewClient(&redis.Options{Addr: srv.Addr})
		s := newStore(t, client, Config{Mode: mode, Timeout: time.Second})
		table := open(t, s, "t")
		id, err := table.Plan(ratelimit.PerHour(1_000_000))
		require.NoError(t, err)
		for range 2 {
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					for range 20 {
						_, _ = table.Apply(context.Background(), fmt.Sprint(i), id, ratelimit.Op{Cost: 1})
					}
				})
			}
			wg.Wait()
			srv.Kill()
		}
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "twice")
		_, err = s.Open("more")
		require.ErrorIs(t, err, ratelimit.ErrClosed)
		require.NoError(t, client.Close())
		for range 1000 {
			if runtime.NumGoroutine() <= before {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > before {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			t.Fatalf("%v: %d goroutines, there were %d", mode, n, before)
		}
	}
}
