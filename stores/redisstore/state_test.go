package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// kinds is a limit of every algorithm.
func kinds(n int64, period time.Duration) map[string]ratelimit.Limit {
	return map[string]ratelimit.Limit{
		"window":  ratelimit.FixedWindow(n, period),
		"aligned": ratelimit.AlignedWindow(n, period),
		"bucket":  ratelimit.TokenBucket(n, period, n),
		"sliding": ratelimit.SlidingWindow(n, period, 10),
		"counter": ratelimit.SlidingCounter(n, period),
		"log":     ratelimit.SlidingLog(n, period),
		"several": ratelimit.FixedWindow(n, period).And(ratelimit.SlidingLog(n, period)).And(ratelimit.TokenBucket(n, period, n)),
	}
}

func TestNothingIsLeftWhenDebtsAreOver(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	table := open(t, newStore(t, client, Config{}), "left")
	last := time.Duration(0)
	for name, l := range kinds(10, 200*time.Millisecond) {
		for i := range 20 {
			last = max(last, take(t, table, fmt.Sprint(name, i), l, 5).FullAfter)
		}
	}
	require.Positive(t, client.DBSize(context.Background()).Val())
	require.Eventually(t, func() bool { return client.DBSize(context.Background()).Val() == 0 }, last+time.Minute, 10*time.Millisecond)
}

func TestAKeyLivesAsLongAsItsDebt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	table := open(t, newStore(t, client, Config{}), "ttl")
	for name, l := range kinds(10, time.Hour) {
		r := take(t, table, name, l, 5)
		key := keyName(keyPrefix(defaultPrefix, "ttl"), name, false)
		ttl := client.PTTL(ctx, key).Val()
		require.Positive(t, ttl, name)
		require.LessOrEqual(t, ttl, r.FullAfter+2*time.Millisecond, name)
		require.Greater(t, ttl, r.FullAfter-10*time.Second, name)

		before := client.Get(ctx, key).Val()
		require.False(t, take(t, table, name, l, 6).Allowed, name)
		take(t, table, name, l, 0)
		take(t, table, name, l, 11)
		require.Equal(t, before, client.Get(ctx, key).Val(), "%s: a refusal writes nothing", name)
	}
}

func TestAClockThatGoesBack(t *testing.T) {
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

// TestRefundAfterClockWentBack: what a take has recovered stays recovered, whatever finds first that the clock
// went back: a script for buckets, or a refund.
func TestRefundAfterClockWentBack(t *testing.T) {
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

func TestRefundOfATakeOfAnotherStore(t *testing.T) {
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
		require.NoError(t, l.Refund(t.Context(), take))
	}
	r, err = l.Peek(t.Context(), "k")
	require.NoError(t, err)
	require.EqualValues(t, 997, r.Remaining, "it gives nothing back")
}

// TestALookForgivesNothing: when the clock went back, a look and a refusal by a limit that does not recover sooner, or
// that counts in other units, leave what a key owes.
func TestALookForgivesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).virtual(t)
	s := newStore(t, client, Config{})
	now := time.Now()
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
		small, err := table.Plan(limits.Limit(c.small).Specs())
		require.NoError(t, err)
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
			require.InDelta(t, owed, ttl, float64(time.Minute), "%s after %+v", name, op)
		}
	}
}

// TestAnAlignedWindowThatGoesBack ends with the clock all the same.
func TestAnAlignedWindowThatGoesBack(t *testing.T) {
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

func TestMemoryOfAKey(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	table := open(t, newStore(t, client, Config{}), "memory")
	for name, most := range map[string]int64{"window": 160, "aligned": 160, "bucket": 160, "counter": 176, "sliding": 192, "log": 512} {
		l := kinds(10, time.Hour)[name]
		for range 10 {
			take(t, table, "2001:db8:1234:5678:"+name, l, 1)
		}
		n, err := client.MemoryUsage(ctx, keyName(keyPrefix(defaultPrefix, "memory"), "2001:db8:1234:5678:"+name, false)).Result()
		require.NoError(t, err)
		t.Logf("%s: %d bytes", name, n)
		require.LessOrEqual(t, n, most, name)
	}
}

func TestKeysAreSafe(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	for _, hash := range []bool{false, true} {
		s := newStore(t, client, Config{HashKeys: hash, Prefix: fmt.Sprintf("safe:%v", hash)})
		names := []string{"", "a", "a:b", "{a}", "}{", "a\nb", "\xff", strings.Repeat("x", 10_000), strings.Repeat("x", 64), strings.Repeat("x", 65), "=a", "#a"}
		n := client.DBSize(ctx).Val()
		for _, table := range names {
			opened := open(t, s, table)
			for _, key := range names {
				require.True(t, take(t, opened, key, ratelimit.PerHour(1), 1).Allowed, "%.20q %.20q", table, key)
			}
		}
		require.EqualValues(t, len(names)*len(names), client.DBSize(ctx).Val()-n)
		for _, key := range client.Keys(ctx, fmt.Sprintf("safe:%v:*", hash)).Val() {
			require.Less(t, len(key), 200)
			require.Equal(t, 1, strings.Count(key, "{"), key)
			require.Equal(t, 1, strings.Count(key, "}"), key)
			require.False(t, strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }), "%q", key)
			require.False(t, hash && !strings.Contains(key, ":#"), "%q is legible", key)
		}
	}
}

func TestWhatCannotBeCounted(t *testing.T) {
	t.Parallel()
	table := open(t, newStore(t, redis.NewClient(&redis.Options{}), Config{}), "refused")
	for name, l := range map[string]ratelimit.Limit{
		"ratelimit.Limit.Period":   ratelimit.FixedWindow(1, 1500*time.Nanosecond),
		"ratelimit.Limit.Segments": ratelimit.SlidingWindow(1, time.Second, 512),
		"ratelimit.Limit.Burst":    ratelimit.TokenBucket(1_000_003, 1_000_000_007*time.Microsecond, 1<<38),
	} {
		for _, l := range []ratelimit.Limit{l, ratelimit.PerHour(5).And(l)} {
			_, err := table.Plan(limits.Limit(l).Specs())
			var bad *core.ConfigError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, name, bad.Field)
		}
	}
}

func TestAConfigThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	s := newStore(t, redis.NewClient(&redis.Options{}), Config{})
	bad := ratelimit.FixedWindow(1, 1500*time.Nanosecond)
	cfg := ratelimit.Config{Name: "uncounted", Store: s, Limit: bad, Limits: map[string]ratelimit.Limit{"a": bad, "b": {}}}
	const both = "ratelimit.Config.Limit.Period = 1.5µs: must be whole microseconds in Redis\n" +
		`ratelimit.Config.Limits["a"].Period = 1.5µs: must be whole microseconds in Redis`
	_, err := ratelimit.New(cfg)
	require.EqualError(t, err, both)
	require.NotErrorIs(t, err, ratelimit.ErrStore, "it has not failed")
	l, err := ratelimit.New(ratelimit.Config{Name: "uncounted", Store: s})
	require.NoError(t, err)
	require.EqualError(t, l.SetConfig(cfg), both)
	require.Empty(t, l.Config().Limits, "nothing changes")
	_, err = l.Take(l.Override(t.Context(), func(c *ratelimit.Config) { c.Limit = bad }), "k", 1)
	require.ErrorIs(t, err, core.ErrConfig)
	require.NotErrorIs(t, err, ratelimit.ErrStore)
	require.NoError(t, l.Close())
}

func TestALargeBucketInSteps(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.Now()
	s.clock = func() time.Time { return now }
	table := open(t, s, "coarse")
	const rate = 1_000_000_007 // and a day, in which it has no factor
	l := ratelimit.TokenBucket(rate, 24*time.Hour, rate)
	require.True(t, take(t, table, "k", l, rate).Allowed)
	id, err := table.Plan(limits.Limit(l).Specs())
	require.NoError(t, err)
	taken := int64(0)
	for range 500 {
		now = now.Add(123_457 * time.Microsecond)
		r, err := table.Apply(context.Background(), "k", id, limits.Op{Kind: limits.TakeAtMost, Cost: rate})
		require.NoError(t, err)
		taken += r.Permits
	}
	due := int64(500 * 123_457 * rate / 86_400_000_000)
	require.InDelta(t, due, taken, rate/864_000+1, "it counts in ticks of 100ms")
}

// TestAFloodForgivesNoDebt: with volatile-ttl, keys that owe most are there after many that
// owe little.
func TestAFloodForgivesNoDebt(t *testing.T) {
	t.Parallel()
	checkFlood(t, "4mb", 25_000)
}

func checkFlood(t *testing.T, memory string, flood int) {
	t.Helper()
	ctx := context.Background()
	client := startServer(t, "--maxmemory", memory, "--maxmemory-policy", "volatile-ttl").client(t)
	table := open(t, newStore(t, client, Config{Mode: Coalesced}), "flood")
	l := ratelimit.TokenBucket(100, time.Hour, 100)
	id, err := table.Plan(limits.Limit(l).Specs())
	require.NoError(t, err)
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
