package redisstore

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/tcpproxy"
)

// startProxy starts a server behind a proxy.
func startProxy(t *testing.T) (*tcpproxy.Proxy, *redis.Client) {
	t.Helper()
	srv := startServer(t)
	p, err := tcpproxy.Start(srv.Addr)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, srv.client(t, func(o *redis.Options) { o.Addr = p.Addr })
}

// TestTheNetworkFails: callers are answered in time while nothing comes through, at once after a
// while, and decisions are made again after it.
func TestTheNetworkFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		fail    func(*tcpproxy.Proxy)
	}{
		"cut":       {200 * time.Millisecond, (*tcpproxy.Proxy).Cut},
		"half-open": {200 * time.Millisecond, (*tcpproxy.Proxy).Swallow},
		"slow":      {200 * time.Millisecond, func(p *tcpproxy.Proxy) { p.Delay(400 * time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				leavesNothing(t)
				proxy, client := startProxy(t)
				const limit = 1000
				l := startLoad(t, newStore(t, client, Config{Mode: mode, Timeout: c.timeout}), ratelimit.PerHour(limit), "k")
				l.until(&l.decided, 500)
				before := l.inTime()
				c.fail(proxy)
				l.until(&l.failed, 2*callersOfALoad)
				found := l.until(&l.unsent, 1)
				_ = l.inTime()
				decided := l.decided.Load()
				l.until(&l.unsent, 2000)
				during := l.inTime()
				require.Equal(t, decided, l.decided.Load(), "nothing comes through")
				proxy.Resume()
				back := l.until(&l.decided, 100)
				l.stop()
				t.Logf("%s %v\nbefore: %s\nunavailable after %v: %s\nback after %v: %s", name, mode, before, found, during, back, l.inTime())
				l.within(limit)
			})
		})
	}
}

// TestASlowNetwork: decisions are made where the timeout is long enough.
func TestASlowNetwork(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		leavesNothing(t)
		proxy, client := startProxy(t)
		l := startLoad(t, newStore(t, client, Config{Mode: mode, Timeout: patient}), ratelimit.PerHour(100), "k")
		l.until(&l.decided, 100)
		proxy.Delay(100 * time.Millisecond)
		l.inTime()
		l.until(&l.decided, 5*callersOfALoad)
		l.stop()
		t.Logf("with 200ms: %s", l.inTime())
		require.Zero(t, l.failed.Load())
		l.within(100)
	})
}

// TestNobodyWaitsForATry: a decision that finds out whether the server is back keeps no other.
func TestNobodyWaitsForATry(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced, Timeout: patient})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(10), 1)
	resume := pause(t, client)
	require.NoError(t, s.first.guard.SetState(breaker.HalfOpen))
	tried := make(chan error)
	call := func() error {
		_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		return err
	}
	go func() { tried <- call() }()
	require.Eventually(t, s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false)).tries, patient, time.Millisecond)
	require.ErrorIs(t, call(), ErrUnavailable)
	select {
	case err := <-tried:
		t.Fatalf("the try was over before: %v", err)
	default:
	}
	resume()
	require.NoError(t, <-tried)
	require.Eventually(t, func() bool { return call() == nil }, patient, time.Millisecond)
}

// TestAServerThatAnswersIsThere: decisions that fail together with others that do not are no
// reason to send none.
func TestAServerThatAnswersIsThere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	lane := func(key string) *lane { return s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), key, false)) }
	bad, good := "bad", "good"
	for lane(good) != lane(bad) {
		good += "."
	}
	require.NoError(t, client.LPush(ctx, keyName(keyPrefix(defaultPrefix, "t"), bad, false), "not ours").Err())
	window, err := table.Plan(limits.Limit(ratelimit.PerHour(1000)).Specs())
	require.NoError(t, err)
	log, err := table.Plan(limits.Limit(ratelimit.SlidingLog(1000, time.Hour)).Specs()) // which is another script
	require.NoError(t, err)
	take(t, table, good, ratelimit.PerHour(1000), 0) // so there is a connection
	for range failures {
		resume := pause(t, client, lane(bad))
		var wg sync.WaitGroup
		call := func(key string, fails bool) {
			wg.Go(func() {
				if _, err := table.Apply(ctx, key, window, limits.Op{Cost: 1}); errors.Is(err, ErrUnavailable) || fails != (err != nil) {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
		call(bad, true)
		require.Eventually(t, queued(lane(bad), 0), patient, time.Millisecond)
		wg.Go(func() {
			if _, err := table.Apply(ctx, bad, log, limits.Op{Cost: 1}); err == nil || errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		})
		call(good, false)
		require.Eventually(t, queued(lane(bad), 2), patient, time.Millisecond)
		resume()
		wg.Wait()
	}
}

// TestTheDefaultTimeout: a server that takes connections and says nothing keeps nobody longer than
// 50ms, which is what is promised to who configures nothing.
func TestTheDefaultTimeout(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = silent.Close() })
		client := server{&redisserver.Server{Addr: silent.Addr().String()}}.client(t)
		quiettest.Repeat(t, func() error {
			s, err := New(client, Config{Mode: mode})
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			table := open(t, s, "t")
			id, err := table.Plan(limits.Limit(ratelimit.PerHour(10)).Specs())
			require.NoError(t, err)
			var took []time.Duration
			for range failures / 2 { // a call that the machine keeps waiting can be two failures of Coalesced
				began := time.Now()
				_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
				took = append(took, time.Since(began))
				require.ErrorContains(t, err, "no reply in time")
			}
			slices.Sort(took)
			require.GreaterOrEqual(t, took[0], 50*time.Millisecond)
			if took[len(took)/2] > 500*time.Millisecond {
				return fmt.Errorf("the timeout is 50ms: %v", took)
			}
			return nil
		})
	})
}
