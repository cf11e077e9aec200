package ratelimit_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

func setLimit(tb testing.TB, l *ratelimit.Limiter, limit ratelimit.Limit) {
	tb.Helper()
	ratelimittest.SetLimit(tb, l, limit)
	require.Equal(tb, limit.String(), l.Limit().String())
}

// Whatever limit follows whatever other, at once or at the end of the window, no key
// has more permits in all than the larger of the two would have given it.
func TestSetLimitNeverRefills(t *testing.T) {
	t.Parallel()
	limits := every(10, time.Hour)
	for _, before := range limits {
		for _, after := range limits {
			t.Run(before.String()+" to "+after.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter(t, ratelimit.Config{Limit: before})
					time.Sleep(time.Minute)
					require.True(t, take(t, l, "k", 10).Allowed)
					for range 3 {
						time.Sleep(time.Second)
						setLimit(t, l, after)
						require.False(t, take(t, l, "k", 10).Allowed)
						r := take(t, l, "k", 1)
						require.False(t, r.Allowed, "%+v", r)
						require.Positive(t, r.RetryAfter)
						require.LessOrEqual(t, r.RetryAfter, 2*time.Hour)
						require.True(t, take(t, l, "new", 1).Allowed)
						require.NoError(t, l.Reset(t.Context(), "new"))
						time.Sleep(time.Second)
						setLimit(t, l, before)
						require.False(t, take(t, l, "k", 1).Allowed)
					}
					setLimit(t, l, after)
					time.Sleep(3 * time.Hour)
					require.EqualValues(t, 10, mustPeek(t, l, "k").Remaining, "and all comes back")
				})
			})
		}
	}
}

func TestSetLimitTwiceInOneWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10)})
		require.EqualValues(t, 9, take(t, l, "a", 1).Remaining)
		time.Sleep(10 * time.Second)
		setLimit(t, l, ratelimit.PerMinute(20))
		require.EqualValues(t, 19, take(t, l, "b", 1).Remaining, "its window begins now")
		time.Sleep(10 * time.Second)
		setLimit(t, l, ratelimit.PerMinute(3))
		require.EqualValues(t, 1, take(t, l, "a", 1).Remaining)
		require.EqualValues(t, 1, take(t, l, "b", 1).Remaining)
		require.EqualValues(t, 2, take(t, l, "c", 1).Remaining)
		time.Sleep(40 * time.Second) // a minute after the first
		require.EqualValues(t, 2, take(t, l, "a", 1).Remaining)
		require.EqualValues(t, 0, take(t, l, "b", 1).Remaining)
		require.False(t, take(t, l, "c", 3).Allowed)
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 1, take(t, l, "a", 1).Remaining)
		require.EqualValues(t, 2, take(t, l, "b", 1).Remaining)
	})
}

func TestSetLimitOfSeveral(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		second, hour := ratelimit.TokenBucket(10, time.Second, 10), ratelimit.PerHour(100)
		l := newLimiter(t, ratelimit.Config{Limit: second.And(hour)})
		require.True(t, take(t, l, "k", 10).Allowed)
		setLimit(t, l, ratelimit.TokenBucket(10, time.Second, 5).And(ratelimit.PerHour(15)))
		require.Equal(t, 600*time.Millisecond, take(t, l, "k", 1).RetryAfter, "ten are taken, and the bucket holds five")
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 0, take(t, l, "k", 5).Remaining)
		time.Sleep(10 * time.Second)
		require.Equal(t, time.Hour-20*time.Second, take(t, l, "k", 5).RetryAfter, "fifteen of the hour are taken")
		time.Sleep(time.Hour)
		require.True(t, take(t, l, "k", 5).Allowed)
		require.EqualValues(t, 10, take(t, ratelimittest.Under(t, l, ratelimit.PerHour(15)), "k", 0).Remaining)
		setLimit(t, l, second) // the hour is dropped
		time.Sleep(time.Second)
		require.EqualValues(t, 10, mustPeek(t, l, "k").Remaining)
	})
}

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.Config{Name: "api", Registry: &core.Registry{}, Limit: ratelimit.TokenBucket(10, time.Minute, 10), MaxKeys: 100}
		l := newLimiter(t, cfg)
		require.True(t, take(t, l, "k", 10).Allowed)
		next := cfg
		next.Limit, next.MaxWait = ratelimit.TokenBucket(10, time.Minute, 5), time.Hour
		require.NoError(t, l.SetConfig(next))
		require.Equal(t, 36*time.Second, take(t, l, "k", 1).RetryAfter, "what was taken stays taken")
		require.Equal(t, time.Minute, served(t, <-waitAt(t.Context(), l, 5)), "up to an hour now")

		bad := next
		bad.Name, bad.Registry, bad.Store, bad.Limit = "other", &core.Registry{}, &ratelimittest.Slow{}, ratelimit.PerHour(-1)
		err := l.SetConfig(bad)
		for _, want := range []string{"Config.Name = other: must stay api", "Config.Registry =", "Config.Store =", "Limit = -1/"} {
			require.ErrorContains(t, err, want)
		}
		require.Equal(t, next.Limit, l.Limit(), "the old one is kept")

		shared := next
		shared.Name, shared.Registry, shared.MaxWait = "", nil, time.Second
		require.NoError(t, l.SetConfig(shared), "one of many instances")
		require.Equal(t, "api", l.Config().Name)
		require.Same(t, cfg.Registry, l.Config().Registry)
		require.Equal(t, time.Second, l.Config().MaxWait)
		require.NoError(t, l.Close())
		_, ok := core.Lookup[*ratelimit.Limiter](cfg.Registry, "api")
		require.False(t, ok, "it knows where it is")
	})
}

func TestOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(10), MaxWait: time.Hour})
		pro := ratelimittest.Under(t, l, ratelimit.PerMinute(100))
		require.True(t, take(t, l, "k", 4).Allowed)
		require.NoError(t, l.SetKeyLimit("k", ratelimit.PerMinute(5)))
		require.EqualValues(t, 0, take(t, l, "k", 1).Remaining, "what it took stays taken")
		require.False(t, take(t, pro, "k", 1).Allowed, "whatever the view")
		require.True(t, take(t, l, "other", 10).Allowed)
		w := waitAt(t.Context(), l, 3)
		time.Sleep(time.Second)
		require.NoError(t, pro.SetKeyLimit("k", ratelimit.PerMinute(8)))
		require.Equal(t, time.Second, served(t, <-w), "who waits is served by the new one")
		require.NoError(t, l.SetKeyLimit("k", ratelimit.TokenBucket(1, time.Minute, 8)))
		require.Equal(t, time.Minute-time.Second, take(t, l, "k", 1).RetryAfter, "what the window gives back")
		_ = l.SetKeyLimit("k", ratelimit.Limit{})
		require.EqualValues(t, 2, mustPeek(t, l, "k").Remaining)
		_ = l.SetKeyLimit("nobody", ratelimit.Limit{})
		require.ErrorIs(t, l.SetKeyLimit("k", ratelimit.PerMinute(-1)), core.ErrConfig)
	})
}

// Limits change under load, and nothing but the limit changes.
func TestSetLimitUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(1000, time.Hour, 1000), MaxWait: time.Millisecond})
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := map[string]int64{}
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				key := strconv.Itoa(i % 3)
				var r ratelimit.Result
				var err error
				switch i % 4 {
				case 0:
					if r, err = l.Wait(t.Context(), key, 1); err != nil {
						require.ErrorIs(t, err, ratelimit.ErrLimited)
					}
				case 1:
					r, err = l.TakeAtMost(t.Context(), key, 2)
					require.NoError(t, err)
				default:
					r = take(t, l, key, 1)
				}
				mu.Lock()
				granted[key] += r.Permits
				mu.Unlock()
				if g == 0 && i%50 == 0 {
					setLimit(t, l, ratelimit.TokenBucket(int64(900+i%100), time.Hour, int64(900+i%100)))
				}
				if g == 1 && i%70 == 0 {
					require.NoError(t, l.SetKeyLimit("1", ratelimit.TokenBucket(500, time.Hour, 500)))
					_ = l.SetKeyLimit("1", ratelimit.Limit{})
				}
			}
		})
	}
	wg.Wait()
	for key, n := range granted {
		require.LessOrEqual(t, n, int64(1010), "key %s", key)
		least := int64(900)
		if key == "1" { // under its override a permit is twice the debt in time
			least = 450
		}
		require.GreaterOrEqual(t, n, least, "key %s", key)
	}
}
