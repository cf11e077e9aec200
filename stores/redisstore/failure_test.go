package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
)

// modes runs a test in both.
func modes(t *testing.T, test func(t *testing.T, mode Mode)) {
	t.Helper()
	for _, mode := range []Mode{Strict, Coalesced} {
		t.Run(string(mode), func(t *testing.T) {
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
		limits := kinds(1000, 1000*time.Hour) // no permit comes back meanwhile
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

// TestRealRefusals: what the server says to a batch is said to all in it, and none of them counts.
func TestRealRefusals(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		client := startServer(t).client(t)
		table := open(t, newStore(t, client, Config{Mode: mode}), "t")
		all := kinds(10, time.Hour)
		for name, l := range all {
			take(t, table, name, l, 1)
		}
		for _, c := range []struct {
			says     string
			from, to []any
		}{
			{"out of memory", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}},
			{"is a replica", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		} {
			require.NoError(t, client.Do(ctx, c.from...).Err())
			var wg sync.WaitGroup
			for name, l := range all {
				id, err := table.Plan(limits.Limit(l).Specs())
				require.NoError(t, err)
				wg.Go(func() {
					_, err := table.Apply(ctx, name, id, limits.Op{Cost: 1})
					if err == nil || !errors.Is(err, ErrUnavailable) && !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s, %s: %v", c.says, name, err)
					}
				})
			}
			wg.Wait()
			require.NoError(t, client.Do(ctx, c.to...).Err())
			require.Eventually(t, func() bool {
				_, err := table.Apply(ctx, "other", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
				return err == nil
			}, patient, 10*time.Millisecond)
		}
		for name, l := range all {
			require.EqualValues(t, 9, take(t, table, name, l, 0).Remaining, name)
		}
	})
}

func TestUnavailableIsFoundAndForgotten(t *testing.T) {
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
		require.Eventually(t, func() bool { // the first connection can take longer than Timeout
			_, err := deny.Take(ctx, "k", 1)
			return err == nil
		}, patient, time.Millisecond)
		srv.Kill()
		for range failures {
			r, err := allow.Take(ctx, "k", 1)
			require.NoError(t, err)
			require.True(t, r.Allowed)
		}
		quiettest.Test(t, func(t *quiettest.T) {
			var unsent []time.Duration
			for range 100 {
				start := time.Now()
				_, err := deny.Take(ctx, "k", 1)
				if errors.Is(err, ErrUnavailable) {
					unsent = append(unsent, time.Since(start))
				}
				require.ErrorIs(t, err, ratelimit.ErrStore)
				require.NotErrorIs(t, err, core.ErrRejected)
			}
			slices.Sort(unsent)
			require.Greater(t, len(unsent), 90)
			require.Less(t, unsent[len(unsent)/2], 100*time.Millisecond, "at once")
		})
		require.NoError(t, srv.Restart())
		require.Eventually(t, func() bool {
			_, err := deny.Take(ctx, "k", 1)
			return err == nil
		}, busy, 10*time.Millisecond)
	})
}

// TestACrashUnderLoad kills the server and starts it again, empty, while callers go on: each life
// of it grants no more than the limit. With a share, that of one instance which is all of the limit, it
// is each life and the time until the next: the share begins with what the server had left.
func TestACrashUnderLoad(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		srv := startServer(t)
		const limit, lives = 500, 3
		s := newStore(t, srv.client(t), Config{Mode: mode, Timeout: 250 * time.Millisecond})
		l := startLoad(t, s, ratelimit.PerHour(limit), "k")
		l.share(s, ratelimit.PerHour(limit), "k")
		l.until(&l.granted[index(ratelimit.Local)], limit/5)
		for life := range int64(lives) {
			l.until(&l.granted[index(ratelimit.Deny)], limit/4)
			l.within((life + 1) * limit)
			if life == lives-1 {
				break
			}
			srv.Kill()
			unsent := l.until(&l.unsent, 1)
			l.until(&l.unsent, 100)
			shared := func(c *caller) bool { return c.policy == ratelimit.Local }
			l.spans(shared)
			l.round(shared, 2*limit/sharing) // what it has is taken
			l.shareWithin((life + 1) * limit)
			require.NoError(t, srv.Restart())
			t.Logf("%v: unavailable after %v, back after %v, granted %d, %d and %d in %d lives", mode, unsent, l.until(&l.decided, 1),
				l.granted[index(ratelimit.Deny)].Load(), l.granted[index(ratelimit.Allow)].Load(), l.granted[index(ratelimit.Local)].Load(), life+1)
		}
		l.until(&l.decided, 2*limit)
		l.stop()
		t.Logf("%v: %s", mode, l.inTime())
		l.within(lives * limit)
		l.shareWithin(lives * limit)
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
		id, err := table.Plan(limits.Limit(ratelimit.PerHour(1_000_000)).Specs())
		require.NoError(t, err)
		for range 2 {
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					for range 20 {
						_, _ = table.Apply(context.Background(), fmt.Sprint(i), id, limits.Op{Cost: 1})
					}
				})
			}
			wg.Wait()
			srv.Kill()
		}
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "twice")
		_, err = s.Open("more")
		require.ErrorIs(t, err, core.ErrClosed)
		require.NoError(t, client.Close())
		for range 1000 {
			if runtime.NumGoroutine() <= before {
				break
			}
			time.Sleep(10 * time.Millisecond) // goroutines end by themselves, and cannot be waited for
		}
		if n := runtime.NumGoroutine(); n > before {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			t.Fatalf("%v: %d goroutines, there were %d", mode, n, before)
		}
	}
}
