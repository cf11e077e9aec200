package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/stores/denycache"
	"github.com/gresil/gresil/stores/share"
)

// conforms runs the suite in virtual time: a bubble waits for the server without time passing, and the
// server decides by the time of the bubble.
func conforms(t *testing.T, cfg Config) {
	t.Helper()
	conformsOn(t, startServer(t), cfg, func(s *Store) ratelimit.Store { return s })
}

func conformsOn(t *testing.T, srv server, cfg Config, wrap func(*Store) ratelimit.Store) {
	t.Helper()
	var n atomic.Int64
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			cfg := cfg
			cfg.Prefix = "test" + strconv.FormatInt(n.Add(1), 10)
			return wrap(storeInBubble(t, srv, cfg))
		},
		Bubble: synctest.Test,
	})
}

// storeInBubble returns a store by the time of a bubble.
func storeInBubble(t *testing.T, srv server, cfg Config) *Store {
	t.Helper()
	time.Sleep(time.Until(time.UnixMicro(epoch).AddDate(1, 0, 0))) // a bubble begins with 2000
	s := newStore(t, srv.virtual(t), cfg)
	s.clock, s.every = time.Now, 10*365*24*time.Hour // a beat now and then would be millions
	return s
}

func TestStrictConformance(t *testing.T) {
	t.Parallel()
	conforms(t, Config{})
}

func TestCoalescedConformance(t *testing.T) {
	t.Parallel()
	conforms(t, Config{Mode: Coalesced})
}

func TestWrapperConformance(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		conformsOn(t, startServer(t), Config{Mode: mode}, inWrappers)
	})
}

// inWrappers is a store with a deny cache and a share in use.
func inWrappers(s *Store) ratelimit.Store {
	return localStore{core.Must(share.New(core.Must(denycache.New(s, denycache.Config{})), share.Config{}))}
}

type localStore struct{ ratelimit.Store }

func (s localStore) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	if err == nil {
		_ = t.(limits.LocalTable).Local() //nolint:forcetypeassert // it is one
	}
	return t, err
}

// TestWaiters: the waiters of a key are served in order and in time, no take overtakes them, and what changes that applies at once.
func TestWaiters(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for name, wrap := range map[string]func(*Store) ratelimit.Store{"alone": func(s *Store) ratelimit.Store { return s }, "wrapped": inWrappers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modes(t, func(t *testing.T, mode Mode) {
				t.Helper()
				synctest.Test(t, func(t *testing.T) {
					s := wrap(storeInBubble(t, srv, Config{Mode: mode, Prefix: name + string(mode)}))
					l := core.Must(ratelimit.New(ratelimit.Config{Name: "line", Store: s, Limit: ratelimit.TokenBucket(1, time.Second, 1), MaxWait: 3 * time.Second}))
					wait := func(ctx context.Context) <-chan time.Duration {
						done := make(chan time.Duration, 1)
						go func() {
							r, err := l.Wait(ctx, "k", 1)
							if errors.Is(err, ratelimit.ErrLimited) {
								r.Wait = -r.RetryAfter
							}
							if r.Allowed != (err == nil) {
								t.Errorf("Wait = %+v, %v", r, err)
							}
							done <- r.Wait
						}()
						synctest.Wait() // it has its place
						return done
					}
					require.Zero(t, <-wait(t.Context()))
					ctx, cancel := context.WithCancel(t.Context())
					first, second, third := wait(ctx), wait(t.Context()), wait(t.Context())
					require.Equal(t, -4*time.Second, <-wait(t.Context()), "past MaxWait")
					r, err := l.Take(t.Context(), "k", 1)
					require.NoError(t, err)
					require.False(t, r.Allowed, "before the first waiter")
					cancel()
					require.Zero(t, <-first)
					require.Equal(t, time.Second, <-second)
					time.Sleep(time.Second / 8) // the third has reserved its time
					require.NoError(t, l.Reset(t.Context(), "k"))
					require.Equal(t, 9*time.Second/8, <-third)
					last := wait(t.Context())
					ratelimittest.SetLimit(t, l, ratelimit.TokenBucket(10, time.Second, 1))
					raised := <-last
					require.True(t, raised > 0 && raised < time.Second, "%v", raised)
					require.NoError(t, l.Close())
				})
			})
		})
	}
}

// TestVirtualTimeKeepsKeys: a key that the server would have expired by its own clock is
// there as long as the clock of the store stands still.
func TestVirtualTimeKeepsKeys(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for name, limit := range kinds(10, 10*time.Millisecond) {
		for _, mode := range []Mode{Strict, Coalesced} {
			s := newStore(t, srv.virtual(t), Config{Mode: mode})
			now := time.Now()
			s.clock = func() time.Time { return now }
			table := open(t, s, string(mode))
			for _, limit := range []ratelimit.Limit{limit, limit.And(ratelimit.SlidingLog(100, 10*time.Millisecond))} {
				key := name + limit.String()
				require.True(t, take(t, table, key, limit, 10).Allowed, key)
				ttl := srv.client(t).PTTL(t.Context(), keyName(keyPrefix(defaultPrefix, string(mode)), key, false)).Val()
				require.Greater(t, ttl, keptLonger-time.Minute, key)
				require.False(t, take(t, table, key, limit, 10).Allowed, key)
			}
		}
	}
}

// TestSharedLimit: four instances, each with connections and a mode of its own, grant what the limit has and no more, one after
// the other.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	_, cluster := startCluster(t, nil)
	for where, client := range map[string]func() redis.UniversalClient{
		"server": func() redis.UniversalClient { return srv.client(t) }, "cluster": func() redis.UniversalClient { return cluster },
	} {
		for name, l := range kinds(500, time.Hour) {
			var mu sync.Mutex
			var left []int64
			var wg sync.WaitGroup
			for i := range 4 {
				table := open(t, newStore(t, client(), Config{Mode: []Mode{Strict, Coalesced}[i%2]}), "shared")
				id := planned(t, table, l)
				for range 8 {
					wg.Go(func() {
						for range 20 {
							r, err := table.Apply(context.Background(), name, id, limits.Op{Cost: 1})
							if err != nil {
								t.Error(where, err)
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
			require.Len(t, left, 500, where, name)
			for i, n := range left {
				require.EqualValues(t, i, n, "%s, %s: each grant leaves another number", where, name)
			}
		}
	}
}

// TestWaitersOfTwoProcesses: the times that they reserve are one after the other, and one that leaves gives its time back.
func TestWaitersOfTwoProcesses(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx, period := context.Background(), time.Minute // so that no permit comes back meanwhile, however slow the machine is
		client := startServer(t).client(t)
		var all [2]*ratelimit.Limiter
		for i := range all {
			all[i] = core.Must(ratelimit.New(ratelimit.Config{
				Name: "order", Store: newStore(t, client, Config{Mode: mode}), Limit: ratelimit.TokenBucket(1, period, 1), MaxWait: time.Hour, OnStoreError: ratelimit.Deny,
			}))
		}
		var times []int64 // in µs of the server
		for i := range 10 {
			r, err := all[i%2].Reserve(ctx, "k", 1, time.Hour)
			require.NoError(t, err)
			times = append(times, r.Receipt.At+r.Wait.Microseconds())
		}
		for i := range 9 {
			require.Equal(t, period.Microseconds(), times[i+1]-times[i])
		}
		require.Eventually(t, func() bool { // a time is given back later if its caller leaves before the reply
			key := fmt.Sprint(time.Now().UnixNano())
			_, err := all[0].Wait(ctx, key, 1)
			require.NoError(t, err)
			gone, cancel := context.WithCancel(ctx)
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err = all[1].Wait(gone, key, 1)
			require.ErrorIs(t, err, context.Canceled)
			r, err := all[0].Reserve(ctx, key, 1, time.Hour)
			require.NoError(t, err)
			return r.Wait <= period
		}, busy, time.Millisecond)
	})
}

// TestWaitersThatGiveUp: of 200 callers a second in two processes, each of which gives up after half a second,
// 20 a second are served. A busy machine makes a try void that serves fewer; none serves more.
func TestWaitersThatGiveUp(t *testing.T) {
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

func TestExpiryOfAKey(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	table := open(t, newStore(t, client, Config{}), "ttl")
	for name, l := range kinds(10, time.Hour) {
		r := take(t, table, name, l, 5)
		key := keyName(keyPrefix(defaultPrefix, "ttl"), name, false)
		ttl := client.PTTL(ctx, key).Val()
		require.Positive(t, ttl, name)
		most := r.FullAfter + 2*time.Millisecond
		if name == "bucket" { // set in advance for later takes
			most = 2*r.FullAfter + 1002*time.Millisecond
		}
		require.LessOrEqual(t, ttl, most, name)
		require.Greater(t, ttl, r.FullAfter-10*time.Second, name)

		before := client.Get(ctx, key).Val()
		require.False(t, take(t, table, name, l, 6).Allowed, name)
		take(t, table, name, l, 0)
		take(t, table, name, l, 11)
		require.Equal(t, before, client.Get(ctx, key).Val(), "%s: a refusal writes nothing", name)

		take(t, table, name, l, 1)
		again := client.PTTL(ctx, key).Val()
		require.LessOrEqual(t, again, max(most, time.Hour*5/4+1002*time.Millisecond), name)
		take(t, table, name, l, 1)
		require.LessOrEqual(t, client.PTTL(ctx, key).Val(), again, "%s: its expiry is set in advance", name)
	}
}

func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	for _, back := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		s := newStore(t, client, Config{Prefix: "clock" + back.String()})
		now := time.Now()
		s.clock = func() time.Time { return now }
		table := open(t, s, "back")
		for name, l := range kinds(10, time.Minute) {
			for range 10 {
				take(t, table, name, l, 1)
			}
			now = now.Add(-back)
			r := take(t, table, name, l, 1)
			require.False(t, r.Allowed, "%s, %v back: %+v", name, back, r)
			require.LessOrEqual(t, r.RetryAfter, 2*time.Minute, "%s, %v back", name, back)
			now = now.Add(r.RetryAfter)
			require.True(t, take(t, table, name, l, 1).Allowed, "%s, %v back", name, back)
			now = now.Add(time.Hour + back)
		}
	}
}

// TestClockGoesBackBeforeARefund: what a take has recovered stays recovered, whatever finds first that the clock
// went back: a script for buckets, or a refund.
func TestClockGoesBackBeforeARefund(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	limit := ratelimit.TokenBucket(1, time.Second, 8)
	for name, cost := range map[string]int64{"refund": 0, "take": 1} {
		for _, back := range []time.Duration{time.Second, 3 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(name, " ", back), func(t *testing.T) {
				t.Parallel()
				s := newStore(t, client, Config{Prefix: name + back.String()})
				now := time.Now()
				s.clock = func() time.Time { return now }
				table := open(t, s, "back")
				first := take(t, table, "k", limit, 2)
				now = now.Add(1500 * time.Millisecond)
				require.True(t, take(t, table, "k", limit, 2).Allowed) // it owes 2.5
				now = now.Add(-back)
				if cost > 0 {
					require.True(t, take(t, table, "k", limit, cost).Allowed)
				}
				r, err := table.Apply(t.Context(), "k", first.Receipt.Plan, limits.Op{Kind: limits.Refund, Cost: 2, Receipt: first.Receipt})
				require.NoError(t, err)
				require.GreaterOrEqual(t, r.FullAfter, time.Duration(2+cost)*time.Second, "only the second take is to be paid")
			})
		}
	}
}

func TestRefundOfAnotherStore(t *testing.T) {
	t.Parallel()
	l, err := ratelimit.New(ratelimit.Config{Name: "foreign", Store: newStore(t, startServer(t).client(t), Config{})})
	require.NoError(t, err)
	memory, err := ratelimit.New(ratelimit.Config{})
	require.NoError(t, err)
	_, err = l.Take(t.Context(), "k", 3)
	require.NoError(t, err)
	r, err := memory.Take(t.Context(), "k", 3)
	require.NoError(t, err)
	for _, take := range []ratelimit.Result{r, {Permits: 3}} {
		require.Eventually(t, func() bool { return l.Refund(t.Context(), take) == nil }, busy, time.Millisecond) // it waits for a second at most
	}
	r, err = l.Peek(t.Context(), "k")
	require.NoError(t, err)
	require.EqualValues(t, 997, r.Remaining, "it gives nothing back")
}

// TestClockGoesBackBeforeARefusal: when the clock went back, a look and a refusal by a limit that does not recover sooner, or
// that counts in other units, leave what a key owes.
func TestClockGoesBackBeforeARefusal(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	now := time.Now().Truncate(time.Hour).Add(time.Hour / 2) // no window ends meanwhile
	s.clock = func() time.Time { return now }
	table := open(t, s, "look")
	fast, hour := ratelimit.TokenBucket(1_000_000, time.Millisecond, 1_000_000), time.Hour
	for name, c := range map[string]struct {
		big, small ratelimit.Limit
		cost       int64 // that is refused
	}{
		"window":            {ratelimit.FixedWindow(100, hour), ratelimit.FixedWindow(10, hour), 1},
		"aligned":           {ratelimit.AlignedWindow(100, hour), ratelimit.AlignedWindow(10, hour), 1},
		"sliding":           {ratelimit.SlidingWindow(100, hour, 10), ratelimit.SlidingWindow(10, hour, 10), 1},
		"counter":           {ratelimit.SlidingCounter(100, hour), ratelimit.SlidingCounter(10, hour), 1},
		"log":               {ratelimit.SlidingLog(100, hour), ratelimit.SlidingLog(10, hour), 1},
		"bucket":            {ratelimit.TokenBucket(1, 24*hour, 100), ratelimit.TokenBucket(7, 1000*hour, 10), 1},
		"bucket by several": {ratelimit.TokenBucket(1, 24*hour, 100), fast.And(ratelimit.SlidingLog(10, hour)), 11},
		"window by several": {ratelimit.FixedWindow(100, hour), ratelimit.FixedWindow(10, hour).And(ratelimit.SlidingLog(10, hour)), 1},
	} {
		take(t, table, name, c.big, 100)
		small := planned(t, table, c.small)
		for _, op := range []limits.Op{{Cost: 0}, {Kind: limits.Check, Cost: 1}, {Cost: c.cost}} {
			owed := take(t, table, name, c.big, 0).FullAfter
			now = now.Add(-time.Second)
			r, err := table.Apply(ctx, name, small, op)
			require.NoError(t, err)
			require.Zero(t, r.Permits, name)
			ttl := client.PTTL(ctx, keyName(keyPrefix(defaultPrefix, "look"), name, false)).Val() - keptLonger
			r = take(t, table, name, c.big, 0)
			require.Zero(t, r.Remaining, "%s after %+v", name, op)
			require.InDelta(t, owed, r.FullAfter, float64(time.Second), "%s after %+v", name, op)
			if strings.HasPrefix(name, "bucket") { // it is set in advance
				require.LessOrEqual(t, ttl, 2*owed+time.Minute, "%s after %+v", name, op)
				ttl = min(ttl, owed)
			}
			require.InDelta(t, owed, ttl, float64(time.Minute), "%s after %+v", name, op)
		}
	}
}

// TestExpiryAfterAStepOfTheClock: a clock that was far ahead for a moment does not keep keys for ever.
func TestExpiryAfterAStepOfTheClock(t *testing.T) {
	t.Parallel()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	table := open(t, s, "t")
	for name, l := range kinds(10, time.Hour) {
		now := time.Now().AddDate(10, 0, 0)
		s.clock = func() time.Time { return now }
		take(t, table, name, l, 2)
		now = now.AddDate(-10, 0, 0)
		take(t, table, name, l, 1)
		_, tail, _ := strings.Cut(client.Get(t.Context(), keyName(keyPrefix(defaultPrefix, "t"), name, false)).Val(), "|")
		require.Less(t, time.Duration(double(tail, 0))*time.Microsecond, now.AddDate(0, 0, 1).Sub(time.UnixMicro(epoch)), name)
	}
}

// TestClockGoesBackInAlignedWindow ends with the clock all the same.
func TestClockGoesBackInAlignedWindow(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	l := ratelimit.AlignedWindow(10, time.Minute)
	for name, l := range map[string]ratelimit.Limit{"alone": l, "of several": l.And(ratelimit.SlidingLog(100, time.Minute))} {
		now := time.Now().Truncate(time.Minute)
		s.clock = func() time.Time { return now }
		table := open(t, s, name)
		take(t, table, "k", l, 10)
		now = now.Add(-20 * time.Second)
		require.Zero(t, take(t, table, "k", l, 0).Remaining, name)
		now = now.Add(20 * time.Second)
		require.EqualValues(t, 10, take(t, table, "k", l, 0).Remaining, name)
	}
}

// The value of a bucket lasts for as long as it needs to know how refunds have moved takes.
func TestLifeOfRefund(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	table, l := open(t, newStore(t, client, Config{}), "t"), ratelimit.TokenBucket(4, 40*time.Second, 4)
	first := take(t, table, "k", l, 2)
	take(t, table, "k", l, 2)
	_, err := table.Apply(t.Context(), "k", planned(t, table, l), limits.Op{Kind: limits.Refund, Cost: 2, Receipt: first.Receipt})
	require.NoError(t, err)
	take(t, table, "k", l, 1)
	require.Greater(t, client.PTTL(t.Context(), keyName(keyPrefix(defaultPrefix, "t"), "k", false)).Val(), 40*time.Second)
}

// Reservations of a sliding counter shift with the clock of the server.
func TestClockGoesBackBehindReservations(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.Now()
	s.clock = func() time.Time { return now }
	table, l := open(t, s, "t"), ratelimit.SlidingCounter(10, time.Minute)
	take(t, table, "k", l, 10)
	r, err := table.Apply(t.Context(), "k", planned(t, table, l), limits.Op{Kind: limits.Reserve, Cost: 5, MaxWait: time.Hour})
	require.NoError(t, err)
	require.True(t, r.Allowed)
	now = now.Add(-time.Hour)
	require.False(t, take(t, table, "k", l, 5).Allowed)
	now = now.Add(5 * time.Minute)
	require.True(t, take(t, table, "k", l, 5).Allowed)
}

// A reservation in an aligned window that lies ahead stays ahead, so that the window is not granted to others too.
func TestClockGoesBackBehindAlignedReservations(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.Unix(2_000_000_000, 0).UTC() // a multiple of 20 s
	s.clock = func() time.Time { return now }
	table, l := open(t, s, "t"), ratelimit.AlignedWindow(5, 10*time.Second).And(ratelimit.FixedWindow(8, 20*time.Second))
	start := now
	now = start.Add(5 * time.Second)
	require.True(t, take(t, table, "k", l, 5).Allowed)
	now = start.Add(11 * time.Second)
	require.True(t, take(t, table, "k", l, 3).Allowed)
	now = start.Add(12 * time.Second)
	r, err := table.Apply(t.Context(), "k", planned(t, table, l), limits.Op{Kind: limits.Reserve, Cost: 1, MaxWait: time.Hour})
	require.NoError(t, err)
	require.True(t, r.Allowed)
	now = start.Add(11 * time.Second)
	take(t, table, "k", l, 0)
	now = start.Add(24 * time.Second)
	require.False(t, take(t, table, "k", l, 5).Allowed)
	require.True(t, take(t, table, "k", l, 4).Allowed)
}

// An aligned window begins at a multiple of its period since 1970, also if no year begins with one.
func TestAlignedWeek(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.Unix(0, 0).Add(3000*week - time.Second)
	s.clock = func() time.Time { return now }
	require.Equal(t, time.Second, take(t, open(t, s, "week"), "k", ratelimit.AlignedWindow(1, week), 1).FullAfter)
}

func TestMemoryUsage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	table := open(t, newStore(t, client, Config{}), "memory")
	all := kinds(10, time.Hour)
	all["aligned"] = ratelimit.AlignedWindow(10, time.Hour) // not a longer one, whose numbers could take more room
	for name, most := range map[string]int64{"window": 160, "aligned": 160, "bucket": 160, "counter": 176, "sliding": 192, "log": 512} {
		for range 10 {
			take(t, table, "2001:db8:1234:5678:"+name, all[name], 1)
		}
		n, err := client.MemoryUsage(ctx, keyName(keyPrefix(defaultPrefix, "memory"), "2001:db8:1234:5678:"+name, false)).Result()
		require.NoError(t, err)
		t.Logf("%s: %d bytes", name, n)
		require.LessOrEqual(t, n, most, name)
	}
}

// TestForeignText: whatever its words are; it is left as it is.
func TestForeignText(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := startServer(t).client(t)
		s := newStore(t, client, Config{Mode: mode})
		for i, text := range []string{
			"hello", "hello world", "two words more", "a cat sat on a mat", "b 1", "b 1 2 x 4", "b one two three 4", "f3600000000 1 2", "f 1 2 3x",
			"1 2 3", "5 hello world|", "5 b 1 2|", "|", "x|", " b 1 2 3 1", `{"a": 1}`, "c3600000000 7 x 3 4 5", "s3600000000/10 1 2 x ",
		} {
			for kind, l := range kinds(10, time.Hour) {
				table := open(t, s, kind)
				key := fmt.Sprint(i)
				name := keyName(keyPrefix(defaultPrefix, kind), key, false)
				require.NoError(t, client.Set(t.Context(), name, text, 0).Err())
				id := planned(t, table, l)
				_, err := table.Apply(t.Context(), key, id, limits.Op{Cost: 1})
				require.ErrorContains(t, err, "another program has written to the key", "%q %s", text, kind)
				require.ErrorContains(t, err, name)
				require.Equal(t, text, client.Get(t.Context(), name).Val(), kind)
			}
		}
		require.Equal(t, breaker.Closed, s.first.guard.State())
	})
}

// TestDamagedValue: neither does a value whose end is lost grant anything, or fail the takes of other keys.
func TestDamagedValue(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := startServer(t).client(t)
		s := newStore(t, client, Config{Mode: mode})
		all := kinds(10, time.Hour)
		all["joined"] = all["log"].And(all["bucket"]).And(all["window"])
		for name, l := range all {
			table := open(t, s, name)
			id := planned(t, table, l)
			take(t, table, "k", l, 1)
			key := keyName(keyPrefix(defaultPrefix, name), "k", false)
			whole, head := client.Get(t.Context(), key).Val(), len(planOf(id).head)
			for end := len(whole) - 1; end >= head; end-- {
				if (len(whole)-end)%8 == 0 && (name != "joined" || end >= head+16+8+24+8) {
					continue // what is left can be a shorter list, or no state
				}
				require.NoError(t, client.Set(t.Context(), key, whole[:end], 0).Err())
				s.odd.clear()
				_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
				require.ErrorContains(t, err, "another program has written to the key", "%s, %d of %d bytes after %d", name, end, len(whole), head)
				require.Equal(t, whole[:end], client.Get(t.Context(), key).Val(), name)
			}
		}
	})
}

// TestClockBeforeEpoch: a clock that starts far too early leaves no key without an expiry, and no error.
func TestClockBeforeEpoch(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	var now time.Time
	s.clock = func() time.Time { return now }
	table := open(t, s, "t")
	all := kinds(10, time.Hour)
	all["joined"] = all["log"].And(all["bucket"]).And(all["window"])
	for name, l := range all {
		for _, now = range []time.Time{time.Unix(0, 0), time.Unix(0, 0), time.UnixMicro(epoch), time.Now()} {
			take(t, table, name, l, 1)
			require.Positive(t, client.PTTL(t.Context(), keyName(keyPrefix(defaultPrefix, "t"), name, false)).Val(), "%s at %v", name, now)
		}
	}
}

// TestOneTrip: a decision takes one round trip, also if the value of the key stays one that only the general script can read.
func TestOneTrip(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).client(t), Config{})
	table := open(t, s, "t")
	for name, l := range kinds(10, time.Hour) {
		other := kinds(5, 2*time.Hour)[name] // the limit was lowered
		take(t, table, name, l, 10)
		take(t, table, name, other, 1)
		before := s.Stats().RoundTrips
		for range 100 {
			require.False(t, take(t, table, name, other, 1).Allowed)
		}
		require.LessOrEqual(t, s.Stats().RoundTrips-before, uint64(105), name) // each second the short script is tried
	}
}

// TestEvictionByTTL: with volatile-ttl, keys that owe most are there after many that
// owe little.
func TestEvictionByTTL(t *testing.T) {
	t.Parallel()
	checkFlood(t, "4mb", 25_000)
}

func checkFlood(t *testing.T, memory string, flood int) {
	t.Helper()
	ctx := context.Background()
	client := startServer(t, "--maxmemory", memory, "--maxmemory-policy", "volatile-ttl").client(t)
	table := open(t, newStore(t, client, Config{Mode: Coalesced}), "flood")
	l := ratelimit.TokenBucket(100, time.Hour, 100)
	id := planned(t, table, l)
	const indebted, callers = 200, 64
	for i := range indebted {
		take(t, table, fmt.Sprint("debtor", i), l, 100)
	}
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < flood; i += callers {
				if _, err := table.Apply(ctx, fmt.Sprint("fresh", i), id, limits.Op{Cost: 1}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.NotContains(t, client.Info(ctx, "stats").Val(), "evicted_keys:0\r", "the flood was larger than the memory")
	for i := range indebted {
		require.False(t, take(t, table, fmt.Sprint("debtor", i), l, 2).Allowed)
	}
}
