package redisstore

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
)

// Else whoever can choose the deadline of a request could have the limit lifted for all.
func TestShortDeadlinesSayNothingOfTheServer(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode})
		table := open(t, s, "t")
		limit := ratelimit.PerHour(1000)
		take(t, table, "k", limit, 1)
		proxy.Delay(20 * time.Millisecond)
		for range 2 * failures {
			short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			_, err := table.Apply(short, "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
			cancel()
			require.Error(t, err)
		}
		require.Equal(t, breaker.Closed, s.first.guard.State())
		take(t, table, "k", limit, 1)
	})
}

// Eight decisions on a value of another program do not have the server given up.
func TestAValueThatIsNotOursSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(9), 1)
	require.NoError(t, client.LPush(t.Context(), keyName(keyPrefix(defaultPrefix, "t"), "bad", false), "x").Err())
	for range 2 * failures {
		_, err := table.Apply(t.Context(), "bad", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		require.ErrorContains(t, err, "WRONGTYPE")
	}
	take(t, table, "k", ratelimit.PerHour(9), 1)
}

// TestATakeThatEndsBeforeItsConnectionIsReadyWasNotSent: the deadline of the caller ends it, but it has
// certainly taken nothing, so it does not count at the share of the limit.
func TestATakeThatEndsBeforeItsConnectionIsReadyWasNotSent(t *testing.T) {
	t.Parallel()
	s := newStore(t, server{&redisserver.Server{Addr: silent(t)}}.client(t), Config{Timeout: 100 * time.Millisecond})
	l := localLimiter(t, s, ratelimit.PerHour(10))
	for range 10 {
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(10*time.Millisecond), errCaller)
		_, err := l.Take(ctx, "k", 1)
		cancel()
		require.ErrorIs(t, err, errCaller)
	}
	for range 10 {
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.True(t, r.Allowed)
	}
}

// A value that the script for one limit cannot read takes two round trips, in one Timeout.
func TestTimeoutIsForAllThatADecisionNeeds(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode, Timeout: 3 * time.Second})
		table := open(t, s, "t")
		limit := ratelimit.PerHour(100)
		require.Eventually(t, func() bool { // one value of several limits
			_, err := table.Plan(limits.Limit(limit.And(ratelimit.PerMinute(50))).Specs())
			require.NoError(t, err)
			_, err = table.Apply(t.Context(), "k", planned(t, table, limit.And(ratelimit.PerMinute(50))), limits.Op{Cost: 1})
			return err == nil
		}, patient, time.Millisecond)
		take(t, table, "k", limit, 1)
		proxy.Delay(1400 * time.Millisecond) // each way
		quiettest.Repeat(t, func() error {
			begun := time.Now()
			_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
			require.Error(t, err)
			if took := time.Since(begun); took >= 5400*time.Millisecond {
				return fmt.Errorf("the timeout is 3s: %v", took)
			}
			return nil
		})
	})
}

type countingHook struct{ n *atomic.Int64 }

func (h countingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.n.Add(1); return next(ctx, cmd) }
}

func (h countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestAClientThatKeepsTimeoutsIsUsedWithItsHooks(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	var n atomic.Int64
	client.AddHook(countingHook{&n})
	take(t, open(t, newStore(t, client, Config{}), "t"), "k", ratelimit.PerHour(1), 1)
	require.Positive(t, n.Load())
}

func TestCloseWaitsForWhatWasSent(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode})
		table := open(t, s, "t")
		take(t, table, "k", ratelimit.PerHour(9), 1)
		proxy.Delay(100 * time.Millisecond)
		require.Eventually(t, func() bool { return !sends(s) }, patient, time.Millisecond)
		ended := make(chan error, 1)
		go func() {
			_, err := table.Apply(context.WithoutCancel(t.Context()), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
			ended <- err
		}()
		if mode == Strict {
			require.Eventually(t, func() bool { return !s.ending.TryLock() || unlocked(s) }, patient, 50*time.Microsecond)
		} else {
			require.Eventually(t, func() bool { return sends(s) }, patient, 50*time.Microsecond)
		}
		require.NoError(t, s.Close())
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(patient):
			require.Fail(t, "Close did not wait")
		}
	})
}

// unlocked undoes a TryLock that has succeeded; it is false.
func unlocked(s *Store) bool { s.ending.Unlock(); return false }

// sends tells whether a batch is under way.
func sends(s *Store) bool {
	for i := range s.first.lanes {
		l := &s.first.lanes[i]
		l.mu.Lock()
		busy := l.busy && len(l.queue) == 0
		l.mu.Unlock()
		if busy {
			return true
		}
	}
	return false
}
