package redisstore

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// TestInstancesShareALimit: four instances, each with connections and a mode of its own, grant
// what the limit has and no more, one after the other.
func TestInstancesShareALimit(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for name, l := range kinds(500, time.Hour) {
		var mu sync.Mutex
		var left []int64
		var wg sync.WaitGroup
		for i := range 4 {
			table := open(t, newStore(t, srv.client(t), Config{Mode: []Mode{Strict, Coalesced}[i%2]}), "shared")
			id, err := table.Plan(limits.Limit(l).Specs())
			require.NoError(t, err)
			for range 8 {
				wg.Go(func() {
					for range 20 {
						r, err := table.Apply(context.Background(), name, id, limits.Op{Cost: 1})
						if err != nil {
							t.Error(err)
						}
						if r.Allowed {
							mu.Lock()
							left = append(left, r.Remaining)
							mu.Unlock()
						}
					}
				})
			}
		}
		wg.Wait()
		slices.Sort(left)
		require.Len(t, left, 500, name)
		for i, n := range left {
			require.EqualValues(t, i, n, "%s: each grant leaves another number", name)
		}
	}
}

func TestWaitersAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		client := startServer(t).client(t)
		limiter := func(limit ratelimit.Limit) *ratelimit.Limiter {
			l, err := ratelimit.New(ratelimit.Config{
				Name: "order", Store: newStore(t, client, Config{Mode: mode, Timeout: patient}), Limit: limit, MaxWait: time.Hour, OnStoreError: ratelimit.Deny,
			})
			require.NoError(t, err)
			return l
		}
		limit := ratelimit.TokenBucket(10, time.Second, 1)
		a, b := limiter(limit), limiter(limit)
		var places []int64 // in µs of the server
		for i := range 10 {
			r, err := []*ratelimit.Limiter{a, b}[i%2].Reserve(ctx, "k", 1, time.Minute)
			require.NoError(t, err)
			places = append(places, r.Receipt.At+r.Wait.Microseconds())
		}
		require.True(t, slices.IsSorted(places), "%v", places)
		start := time.Now()
		r, err := a.Wait(ctx, "k", 1)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), r.Wait)
		require.GreaterOrEqual(t, r.Receipt.At+r.Wait.Microseconds(), places[9]+100_000)

		const period = time.Minute // so that no permit comes back meanwhile, however slow the machine is
		a, b = limiter(ratelimit.TokenBucket(1, period, 1)), limiter(ratelimit.TokenBucket(1, period, 1))
		for _, key := range []string{"a", "b", "c", "d", "e"} { // a place is given back later if its caller leaves before the reply
			_, err = a.Wait(ctx, key, 1)
			require.NoError(t, err)
			short, cancel := context.WithTimeout(ctx, period/2)
			_, err = b.Wait(short, key, 1)
			cancel()
			require.Error(t, err, "it cannot come in time")
			gone, cancel := context.WithCancel(ctx)
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err = b.Wait(gone, key, 1)
			require.ErrorIs(t, err, context.Canceled)
			if r, err = a.Reserve(ctx, key, 1, time.Hour); r.Wait <= period {
				break
			}
		}
		require.NoError(t, err)
		require.LessOrEqual(t, r.Wait, period, "the one who left gave its place back")
	})
}

// TestWaitersThatGiveUpStarveNobody: of 200 callers a second in two processes, each of which gives up after half a second,
// 20 a second are served. A busy machine makes a try void that serves fewer; none serves more.
func TestWaitersThatGiveUpStarveNobody(t *testing.T) {
	t.Parallel()
	const tries, rate, long = 5, 20, 3 * time.Second
	client := startServer(t).client(t)
	var served atomic.Int64
	for try := range tries {
		served.Store(0)
		var all []*ratelimit.Limiter
		for range 2 {
			all = append(all, core.Must(ratelimit.New(ratelimit.Config{
				Name: "api", Store: newStore(t, client, Config{Timeout: patient}), Limit: ratelimit.TokenBucket(rate, time.Second, 1), OnStoreError: ratelimit.Deny,
			})))
		}
		var callers sync.WaitGroup
		start, tick := time.Now(), time.NewTicker(5*time.Millisecond)
		for i := 0; time.Since(start) < long; i++ {
			callers.Go(func() {
				ctx, cancel := context.WithCancel(context.Background())
				defer time.AfterFunc(500*time.Millisecond, cancel).Stop()
				if _, err := all[i%2].Wait(ctx, strconv.Itoa(try), 1); err == nil {
					served.Add(1)
				}
			})
			<-tick.C
		}
		tick.Stop()
		callers.Wait()
		require.LessOrEqual(t, served.Load(), 1+int64(rate*time.Since(start).Seconds()), "over-admitted")
		if served.Load() >= int64(.9*rate*long.Seconds()) {
			return
		}
	}
	require.Fail(t, "callers starve", "%d of %v served in the last try", served.Load(), rate*long.Seconds())
}

// TestALimitThatChangesInUse: what was used stays used, in permits, whatever limit comes; a limit per
// key is on top.
func TestALimitThatChangesInUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l, err := ratelimit.New(ratelimit.Config{
		Name: "changes", Store: newStore(t, startServer(t).client(t), Config{}), Limit: ratelimit.PerHour(10), OnStoreError: ratelimit.Deny,
	})
	require.NoError(t, err)
	remaining := func(key string, n int64) int64 {
		t.Helper()
		r, err := l.Take(ctx, key, n)
		require.NoError(t, err)
		return r.Remaining
	}
	require.EqualValues(t, 4, remaining("k", 6))
	ratelimittest.SetLimit(t, l, ratelimit.PerHour(20))
	require.EqualValues(t, 13, remaining("k", 1), "six are used, whatever the window was")
	require.EqualValues(t, 19, remaining("new", 1))
	require.NoError(t, l.Reset(ctx, "k"))
	require.EqualValues(t, 13, remaining("k", 7))
	ratelimittest.SetLimit(t, l, ratelimit.SlidingLog(20, time.Hour))
	require.EqualValues(t, 12, remaining("k", 1), "so it is under a limit of another kind")
	require.EqualValues(t, 19, remaining("newer", 1))
	ratelimittest.SetLimit(t, l, ratelimit.TokenBucket(20, time.Hour, 20))
	require.EqualValues(t, 18, remaining("newer", 1), "what it has goes over")
	require.NoError(t, l.SetKeyLimit("vip", ratelimit.PerHour(1000)))
	require.EqualValues(t, 999, remaining("vip", 1))
	require.NoError(t, l.Reset(ctx, "k"))
	require.EqualValues(t, 19, remaining("k", 1))
	tier := ratelimittest.Under(t, l, ratelimit.TokenBucket(40, time.Hour, 40))
	r, err := tier.Take(ctx, "k", 1)
	require.NoError(t, err)
	require.EqualValues(t, 38, r.Remaining, "a tier begins with what is used")
}
