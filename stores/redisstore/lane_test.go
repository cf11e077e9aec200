package redisstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestLaneRefundsCanceledTakes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	for name, l := range kinds(100, time.Hour) {
		id := planned(t, table, l)
		take(t, table, name, l, 10)
		resume := pause(t, client)
		var wg sync.WaitGroup
		for i := range 20 { // one is under way when the rest comes
			kind := []limits.OpKind{limits.Take, limits.Reserve}[i%2]
			wg.Go(func() {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				_, err := table.Apply(short, name, id, limits.Op{Kind: kind, Cost: 1})
				if err == nil {
					t.Error("answered by a server that was paused")
				}
			})
		}
		wg.Wait()
		resume()
		require.Eventually(t, func() bool { return take(t, table, name, l, 0).Remaining == 90 }, time.Minute, 10*time.Millisecond, name)
	}
}

// A caller that gives up in the queue knows that nothing was sent.
func TestLaneWithoutSending(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	id := planned(t, table, ratelimit.PerHour(9))
	decides(t, table, "k", id)
	l := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
	resume := pause(t, client, l)
	first := make(chan error)
	go func() {
		_, err := table.Apply(context.Background(), "k", id, limits.Op{Cost: 1})
		first <- err
	}()
	require.Eventually(t, queued(l, 0), time.Minute, time.Millisecond) // it is under way
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() {
		_, err := table.Apply(ctx, "k", id, limits.Op{Cost: 1})
		second <- err
	}()
	require.Eventually(t, queued(l, 1), time.Minute, time.Millisecond)
	cancel()
	err := <-second
	require.ErrorIs(t, err, context.Canceled)
	_, unsent := limits.IsUnsent(err)
	require.True(t, unsent)
	resume()
	require.NoError(t, <-first)
}

func TestLaneClose(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(10), 1)
	l := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
	resume := pause(t, client, l)
	errs := make(chan error, 20)
	call := func() {
		_, err := table.Apply(ctx, "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		errs <- err
	}
	go call()
	require.Eventually(t, queued(l, 0), time.Minute, time.Millisecond) // it is under way
	for range cap(errs) - 1 {
		go call()
	}
	require.Eventually(t, queued(l, cap(errs)-1), time.Minute, time.Millisecond)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool { return s.closed.Load() && queued(l, 0)() }, busy, time.Millisecond)
	resume() // Close waits for the one that is under way
	require.NoError(t, <-closed)
	ended := 0
	for range cap(errs) {
		if err := <-errs; err != nil {
			require.ErrorIs(t, err, core.ErrClosed)
			ended++
		}
	}
	require.Equal(t, cap(errs)-1, ended)
}

func TestLaneFull(t *testing.T) {
	t.Parallel()
	full := &lane{store: &Store{}, queue: make([]*request, maxQueue)}
	_, unsent := limits.IsUnsent(full.add(nil))
	require.True(t, unsent)
}

// TestLaneSendsTogether: what comes while a batch is under way is one command more.
func TestLaneSendsTogether(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	l := ratelimit.TokenBucket(100, time.Hour, 100)
	take(t, table, "k", l, 1)
	id := planned(t, table, l)
	require.NoError(t, client.ConfigResetStat(ctx).Err())
	lane := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
	resume := pause(t, client, lane)
	var wg sync.WaitGroup
	var mu sync.Mutex
	left := map[int64]bool{}
	for i := range 150 {
		if i == 1 {
			require.Eventually(t, queued(lane, 0), busy, time.Millisecond)
		}
		wg.Go(func() {
			r, err := table.Apply(ctx, "k", id, limits.Op{Cost: 1})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if r.Allowed {
				left[r.Remaining] = true
			}
		})
	}
	require.Eventually(t, queued(lane, 149), busy, time.Millisecond)
	resume()
	wg.Wait()
	require.Len(t, left, 99, "each was granted another one")
	got := s.Stats()
	require.EqualValues(t, 151, got.Sent)
	require.LessOrEqual(t, got.RoundTrips, uint64(10))
	stats := client.Info(ctx, "commandstats").Val()
	require.Regexp(t, `cmdstat_evalsha:calls=[1-9],`, stats)
}

// TestLaneTrial: a decision that finds out whether the server is back keeps no other.
func TestLaneTrial(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced, Timeout: patient})
	table := open(t, s, "t")
	take(t, table, "k", ratelimit.PerHour(10), 1)
	lane := s.laneOf(keyName(keyPrefix(defaultPrefix, "t"), "k", false))
	require.Eventually(t, func() bool {
		lane.mu.Lock()
		defer lane.mu.Unlock()
		return !lane.busy
	}, busy, time.Millisecond, "the goroutine of the lane ends after the reply")
	resume := pause(t, client)
	require.NoError(t, s.first.guard.SetState(breaker.HalfOpen))
	tried := make(chan error)
	call := func() error {
		_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
		return err
	}
	go func() { tried <- call() }()
	require.Eventually(t, lane.tries, busy, time.Millisecond)
	require.ErrorIs(t, call(), ErrUnavailable)
	select {
	case err := <-tried:
		t.Fatalf("the try was over before: %v", err)
	default:
	}
	resume()
	require.NoError(t, <-tried)
	require.Eventually(t, func() bool { return call() == nil }, busy, time.Millisecond)
}

// TestLaneWithPartialFailures: decisions that fail together with others that do not are no
// reason to send none.
func TestLaneWithPartialFailures(t *testing.T) {
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
	window := planned(t, table, ratelimit.PerHour(1000))
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
		require.Eventually(t, queued(lane(bad), 0), busy, time.Millisecond)
		wg.Go(func() {
			if _, err := table.Apply(ctx, bad, log, limits.Op{Cost: 1}); err == nil || errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		})
		call(good, false)
		require.Eventually(t, queued(lane(bad), 2), busy, time.Millisecond)
		resume()
		wg.Wait()
	}
}

// TestShortDeadlineInALane: a caller whose deadline is before Timeout does not send by itself, so its take is refunded.
func TestShortDeadlineInALane(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table, l := open(t, s, "t"), ratelimit.PerHour(1000)
	take(t, table, "k", l, 1)
	id, resume := planned(t, table, l), pause(t, client)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := table.Apply(ctx, "k", id, limits.Op{Cost: 1})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	resume()
	require.Eventually(t, func() bool { return take(t, table, "k", l, 0).Remaining == 999 }, busy, time.Millisecond)
}
