package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestPlanRefusesLimits(t *testing.T) {
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

func TestConfigWithRefusedLimits(t *testing.T) {
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

func TestLargeBucket(t *testing.T) {
	t.Parallel()
	s := newStore(t, startServer(t).virtual(t), Config{})
	now := time.Now()
	s.clock = func() time.Time { return now }
	table := open(t, s, "coarse")
	const rate = 1_000_000_007 // and a day, in which it has no factor
	l := ratelimit.TokenBucket(rate, 24*time.Hour, rate)
	require.True(t, take(t, table, "k", l, rate).Allowed)
	id := planned(t, table, l)
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
