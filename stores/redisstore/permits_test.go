package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/registry"
)

// isTaken reports whether a key has a lease in the server.
func isTaken(tb testing.TB, client *redis.Client, key string) bool {
	tb.Helper()
	n, err := client.ZCard(context.Background(), "gresil:{bulkheads}:leases:=vendor:="+key).Result()
	require.NoError(tb, err)
	return n > 0
}

// waitersOf returns the number of waiters of the key k in the server.
func waitersOf(tb testing.TB, client *redis.Client) int {
	tb.Helper()
	n, err := client.ZCard(context.Background(), "gresil:{bulkheads}:waiters:=vendor:=k").Result()
	require.NoError(tb, err)
	return int(n)
}

// brief is for tests that wait for the end of a lease, by quiettest: a machine that stands still ends one too.
var brief = Config{Timeout: 250 * time.Millisecond, Lease: 2500 * time.Millisecond} //nolint:gochecknoglobals // a constant

// newBulkhead returns a bulkhead over a store of its own, as another process has it.
func newBulkhead(tb testing.TB, client redis.UniversalClient, cfg Config, change ...func(*bulkhead.Config)) *bulkhead.Bulkhead {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout, cfg.Lease = time.Second, 10*time.Second
	}
	s, err := New(client, cfg)
	require.NoError(tb, err)
	warm := &permits{s.leasing, "=warm"}
	require.Eventually(tb, func() bool { // so that no call waits for a connection
		release, err := warm.Acquire(context.Background(), bulkhead.Request{Weight: 1, Limit: func() int { return 100 }, Lost: func(error) {}})
		if err == nil {
			release()
		}
		return err == nil
	}, patient, time.Millisecond)
	return madeOver(tb, s, bulkhead.New, bulkhead.Config{Name: "vendor", Store: s, MaxWait: patient}, change)
}

func limitOf(n int) func(*bulkhead.Config) {
	return func(c *bulkhead.Config) { c.Limit = n }
}

func noQueue(c *bulkhead.Config) { c.MaxQueue = -1 }

func acquire(tb testing.TB, b *bulkhead.Bulkhead, key string, weight int) bulkhead.Permit {
	tb.Helper()
	p, err := b.AcquireN(context.Background(), key, weight)
	require.NoError(tb, err)
	return p
}

func TestPermitsAreShared(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	client := srv.client(t)
	a, b := newBulkhead(t, client, Config{}, limitOf(3), noQueue), newBulkhead(t, client, Config{}, limitOf(3), noQueue)
	full := func(of *bulkhead.Bulkhead, key string, weight int) {
		t.Helper()
		_, err := of.AcquireN(context.Background(), key, weight)
		require.ErrorIs(t, err, bulkhead.ErrFull)
	}
	one, two := acquire(t, a, "k", 1), acquire(t, b, "k", 2)
	full(a, "k", 1)
	full(b, "k", 1)
	other, empty := acquire(t, a, "other", 3), acquire(t, b, "", 3)
	full(b, "other", 1)
	full(a, "", 1)
	one.Done(core.Success)
	full(a, "k", 2)
	one = acquire(t, b, "k", 1)
	two.Done(core.Success)
	full(a, "k", 3)
	two = acquire(t, a, "k", 2)
	for _, p := range []*bulkhead.Permit{&one, &two, &other, &empty} {
		p.Done(core.Ignored)
	}
	keys, err := client.Keys(context.Background(), "*").Result()
	require.NoError(t, err)
	require.Empty(t, slices.DeleteFunc(keys, func(k string) bool { // the sum of the permits above one
		sum, err := client.HGetAll(context.Background(), k).Result()
		return err == nil && len(sum) == 1 && sum["+"] == "0"
	}))
}

// TestAReleaseWakesAWaiterElsewhere: the waiter polls each second, and has its permits much earlier.
func TestAReleaseWakesAWaiterElsewhere(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	quiettest.Test(t, func(t *quiettest.T) {
		srv := startServer(t)
		a, b := newBulkhead(t, srv.client(t), Config{}, limitOf(1)), newBulkhead(t, srv.client(t), Config{}, limitOf(1))
		pushed := &b.Config().Store.(*Store).leasing.pushed //nolint:forcetypeassert // of newBulkhead
		fastest := time.Hour
		for range 20 {
			held := acquire(t, a, "k", 1)
			got := make(chan time.Time)
			go func() {
				p, err := b.Acquire(context.Background(), "k")
				got <- time.Now()
				if err == nil {
					p.Done(core.Success)
				}
			}()
			require.Eventually(t, func() bool { return b.Stats().Waiting == 1 && pushed.Load() }, patient, time.Millisecond)
			time.Sleep(10 * time.Millisecond) // it is registered with its channel
			begun := time.Now()
			held.Done(core.Success)
			fastest = min(fastest, (<-got).Sub(begun))
		}
		require.Less(t, fastest, refreshEvery/2)
		require.EqualValues(t, 20, b.Stats().Waited)
	})
}

// TestWaitersOfAllProcessesAreServedInTheOrderOfTheirArrival: and a call that comes later does not
// overtake them.
func TestWaitersOfAllProcessesAreServedInTheOrderOfTheirArrival(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	held := acquire(t, newBulkhead(t, client, Config{}, limitOf(4)), "k", 3)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			weight := 1 + 3*(i%2)
			p, err := newBulkhead(t, client, Config{}, limitOf(4)).AcquireN(context.Background(), "k", weight)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			p.Done(core.Success)
		})
		if i == 0 { // it finds its permit free
			wg.Wait()
			continue
		}
		require.Eventually(t, func() bool { return waitersOf(t, client) == i }, patient, time.Millisecond)
	}
	held.Done(core.Success)
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for i, at := range order {
		if i > 0 && at < order[i-1] {
			require.Less(t, order[i-1]-at, 3, "%v: two that have their turn at once can change places", order)
		}
	}
	require.Len(t, order, 12)
}

// TestTheLeaseOfAProcessThatEndsIsFreeAgain: a store that ends without a release is a process that
// was killed.
func TestTheLeaseOfAProcessThatEndsIsFreeAgain(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) {
		srv := startServer(t)
		cfg := brief
		dead := newBulkhead(t, srv.client(t), cfg, limitOf(2))
		begun := time.Now()
		lost := acquire(t, dead, "k", 1)
		b := newBulkhead(t, srv.client(t), cfg, limitOf(2))
		kept := acquire(t, b, "k", 1)
		require.NoError(t, dead.Config().Store.(*Store).Close()) //nolint:forcetypeassert // of newBulkhead
		<-lost.Context().Done()
		require.ErrorIs(t, context.Cause(lost.Context()), bulkhead.ErrLost)
		p := acquire(t, b, "k", 1)
		require.GreaterOrEqual(t, time.Since(begun), brief.Lease)
		require.NoError(t, kept.Context().Err())
		p.Done(core.Success)
		kept.Done(core.Success)
	})
}

// TestALeaseLastsAsLongAsItsCall: it is renewed.
func TestALeaseLastsAsLongAsItsCall(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) {
		srv := startServer(t)
		cfg := brief
		a, b := newBulkhead(t, srv.client(t), cfg, limitOf(5)), newBulkhead(t, srv.client(t), cfg, limitOf(5), noQueue)
		p, heavy := acquire(t, a, "k", 1), acquire(t, a, "k", 4)
		for begun := time.Now(); time.Since(begun) < brief.Lease*3/2; time.Sleep(10 * time.Millisecond) { // the lease of the server ends in real time
			require.NoError(t, p.Context().Err())
			if _, err := b.Acquire(context.Background(), "k"); !errors.Is(err, bulkhead.ErrStore) { // the machine stood still
				require.ErrorIs(t, err, bulkhead.ErrFull)
			}
		}
		p.Done(core.Success)
		heavy.Done(core.Success)
		require.ErrorIs(t, p.Context().Err(), context.Canceled)
		require.NotErrorIs(t, context.Cause(p.Context()), bulkhead.ErrLost)
		p = acquire(t, b, "k", 5)
		p.Done(core.Success)
		require.Zero(t, a.Stats().Lost)
	})
}

// TestPermitsAreLostIfTheServerHasGivenThemToOthers: as after a pause of the process that is longer
// than the lease.
func TestPermitsAreLostIfTheServerHasGivenThemToOthers(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) {
		srv := startServer(t)
		client := srv.client(t)
		cfg := brief
		var lost atomic.Int64
		a := newBulkhead(t, client, cfg, limitOf(2), func(c *bulkhead.Config) {
			c.Registry = eventtest.Registry(func(ctx context.Context, e registry.Event) {
				if ctx.Err() == nil && e.Text == "call lost its permits" && e.Key == "k" && e.Attr("weight").Int64() == 2 && e.Err() == nil {
					lost.Add(1)
				}
			})
		})
		b := newBulkhead(t, client, cfg, limitOf(2))
		p := acquire(t, a, "k", 2)
		require.NoError(t, client.FlushAll(context.Background()).Err())
		time.Sleep(brief.Lease / 2) // longer than the time between two renewals
		require.NoError(t, p.Context().Err(), "it is taken again, as it is free")
		require.True(t, isTaken(t, client, "k"))
		for lost.Load() == 0 { // its renewal can be before the other call
			require.NoError(t, client.FlushAll(context.Background()).Err())
			short, cancel := context.WithTimeout(context.Background(), brief.Lease*2/3)
			other, err := b.Acquire(short, "k")
			if err == nil {
				<-short.Done()
				other.Done(core.Success)
			}
			cancel()
		}
		require.ErrorIs(t, context.Cause(p.Context()), bulkhead.ErrLost)
		p.Done(core.Success)
		require.EqualValues(t, 1, a.Stats().Lost)
	})
}

// TestWithoutTheServer: calls are rejected, or decided in the process; calls in flight lose their
// permits before the lease ends, or keep them.
func TestWithoutTheServer(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	for _, policy := range []bulkhead.FailurePolicy{bulkhead.Deny, bulkhead.Local} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			quiettest.Test(t, func(t *quiettest.T) {
				srv := startServer(t)
				var failed, recovered atomic.Int64
				b := newBulkhead(t, srv.client(t), brief, limitOf(2), noQueue, func(c *bulkhead.Config) {
					c.OnStoreError = policy
					c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
						switch e.Text {
						case "bulkhead store failed":
							failed.Add(1)
						case "bulkhead store recovered":
							recovered.Add(1)
						}
					})
				})
				begun := time.Now()
				inFlight := acquire(t, b, "k", 1)
				srv.Kill()
				second, err := b.Acquire(context.Background(), "k")
				if policy == bulkhead.Local {
					require.NoError(t, err)
					_, err = b.Acquire(context.Background(), "k")
					require.ErrorIs(t, err, bulkhead.ErrFull, "the process has its limit")
					time.Sleep(time.Until(begun.Add(brief.Lease * 3 / 2))) // until the leases have ended
					require.NoError(t, inFlight.Context().Err())
					require.NoError(t, second.Context().Err())
				} else {
					require.ErrorIs(t, err, bulkhead.ErrStore)
					require.ErrorIs(t, err, core.ErrRejected)
					<-inFlight.Context().Done()
					require.ErrorIs(t, context.Cause(inFlight.Context()), bulkhead.ErrLost)
					require.Greater(t, time.Since(begun), brief.Lease/2)
				}
				second.Done(core.Success)
				inFlight.Done(core.Success)
				require.EqualValues(t, 1, failed.Load())
				require.EqualValues(t, 1, b.Stats().StoreErrors)
				require.NoError(t, srv.Restart())
				require.Eventually(t, func() bool {
					p, err := b.AcquireN(context.Background(), "k", 2)
					if err != nil {
						return false
					}
					p.Done(core.Success)
					return recovered.Load() == 1
				}, patient, 10*time.Millisecond)
			})
		})
	}
}

// TestAWaitEndsWithItsContextItsTimeTheBulkheadAndTheStore: and leaves no waiter in the server.
func TestAWaitEndsWithItsContextItsTimeTheBulkheadAndTheStore(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	client := srv.client(t)
	held := acquire(t, newBulkhead(t, client, Config{}, limitOf(1)), "k", 1)
	defer held.Done(core.Ignored)
	why := errors.New("no time")
	for _, c := range []struct {
		end  func(b *bulkhead.Bulkhead, cancel func(error))
		want error
	}{
		{func(_ *bulkhead.Bulkhead, cancel func(error)) { cancel(why) }, why},
		{func(b *bulkhead.Bulkhead, _ func(error)) { _ = b.Close() }, core.ErrClosed},
		{func(*bulkhead.Bulkhead, func(error)) {}, bulkhead.ErrFull},
		{func(b *bulkhead.Bulkhead, _ func(error)) { _ = b.Config().Store.(*Store).Close() }, bulkhead.ErrStore}, //nolint:forcetypeassert // of newBulkhead
	} {
		b := newBulkhead(t, client, Config{}, limitOf(1), func(cfg *bulkhead.Config) {
			if errors.Is(c.want, bulkhead.ErrFull) {
				cfg.MaxWait = 100 * time.Millisecond
			}
		})
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		result := make(chan error, 1)
		go func() {
			_, err := b.Acquire(ctx, "k")
			result <- err
		}()
		if !errors.Is(c.want, bulkhead.ErrFull) { // it can be over already
			require.Eventually(t, func() bool { return waitersOf(t, client) == 1 }, patient, time.Millisecond)
		}
		c.end(b, cancel)
		require.ErrorIs(t, <-result, c.want)
		if !errors.Is(c.want, bulkhead.ErrStore) { // otherwise it is like a process that has ended
			require.Eventually(t, func() bool { return waitersOf(t, client) == 0 }, patient, time.Millisecond, "%v", c.want)
		}
		require.Zero(t, b.Stats().Admitted)
		require.Zero(t, b.Stats().InFlight+b.Stats().Waiting)
	}
}

// TestWaitersOfAProcessThatHasEndedAreSkipped: nothing receives their turn, so a permit goes to the
// next one at once.
func TestWaitersOfAProcessThatHasEndedAreSkipped(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	b := newBulkhead(t, client, Config{}, limitOf(3))
	gone := newLeases(b.Config().Store.(*Store)) //nolint:forcetypeassert // of newBulkhead
	gone.channel = "nobody"
	gone.pushed.Store(true)
	one, two := acquire(t, b, "k", 2), acquire(t, b, "k", 1)
	for i := range 20 {
		h := (&permits{gone, "=vendor"}).holder(bulkhead.Request{Key: "k", Weight: 1 + i%3, Limit: func() int { return 3 }})
		_, err := gone.take(context.Background(), h, "wait", time.Hour)
		require.ErrorIs(t, err, bulkhead.ErrFull)
	}
	require.Equal(t, 20, waitersOf(t, client))
	other := newBulkhead(t, client, Config{}, limitOf(3))
	pushed := &other.Config().Store.(*Store).leasing.pushed //nolint:forcetypeassert // of newBulkhead
	got := make(chan bulkhead.Permit)
	go func() { got <- acquire(t, other, "k", 3) }()
	require.Eventually(t, func() bool { return waitersOf(t, client) == 21 && pushed.Load() }, patient, time.Millisecond)
	one.Done(core.Success)
	two.Done(core.Success)
	p := <-got // and not after the hour
	require.Zero(t, waitersOf(t, client))
	p.Done(core.Success)
}

// TestTheFirstWaiterAsksAgainAtTheEndOfTheFirstLease: the others wait for their turn.
func TestTheFirstWaiterAsksAgainAtTheEndOfTheFirstLease(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	b := newBulkhead(t, srv.client(t), Config{Timeout: time.Second, Lease: time.Hour}, limitOf(1))
	p := acquire(t, b, "k", 1)
	defer p.Done(core.Ignored)
	of := &permits{b.Config().Store.(*Store).leasing, "=vendor"} //nolint:forcetypeassert // of newBulkhead
	for i := range 2 {
		again, err := of.leases.take(context.Background(), of.holder(bulkhead.Request{Key: "k", Weight: 1, Limit: func() int { return 1 }}), "wait", time.Minute)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		if i == 0 {
			require.InDelta(t, time.Hour, again, float64(time.Minute))
		} else {
			require.Zero(t, again)
		}
	}
}
