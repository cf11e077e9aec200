package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestTwoChangesInOneWindowRefillNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1000)})
		require.True(t, take(t, l, "k", 1000).Allowed)
		setLimit(t, l, ratelimit.PerMinute(100))
		require.Equal(t, time.Minute, take(t, l, "k", 1).RetryAfter)
		setLimit(t, l, ratelimit.PerMinute(50))
		require.Equal(t, time.Minute, take(t, l, "k", 1).RetryAfter)
		require.Equal(t, time.Minute, take(t, l, "k", 50).RetryAfter)
	})
}

func TestAChangeThatAKeyWasNotUsedAfterIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerMinute(100)})
		require.True(t, take(t, l, "k", 100).Allowed)
		setLimit(t, l, ratelimit.PerHour(100))
		time.Sleep(2 * time.Minute)
		require.Zero(t, mustPeek(t, l, "k").Remaining)
		setLimit(t, l, ratelimit.FixedWindow(100, 24*time.Hour))
		require.Zero(t, mustPeek(t, l, "k").Remaining)
		time.Sleep(2 * time.Hour) // the table is swept, and the hour is over
		setLimit(t, l, ratelimit.PerMinute(10))
		require.Equal(t, time.Minute, take(t, l, "k", 1).RetryAfter)
	})
}

func TestALowerRateOfABucketGrantsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.TokenBucket(100, time.Second, 100)})
		require.True(t, take(t, l, "k", 100).Allowed)
		setLimit(t, l, ratelimit.TokenBucket(10, time.Second, 100))
		r := take(t, l, "k", 1)
		require.Zero(t, r.Remaining)
		require.Equal(t, 100*time.Millisecond, r.RetryAfter)
	})
}

func TestAFasterLimitIsNotBlockedByTheOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(10)})
		require.True(t, take(t, l, "k", 10).Allowed)
		setLimit(t, l, ratelimit.PerSecond(100))
		require.True(t, take(t, l, "k", 90).Allowed)
		require.Equal(t, time.Second, take(t, l, "k", 1).RetryAfter)
		time.Sleep(time.Second)
		require.True(t, take(t, l, "k", 100).Allowed)
	})
}

func TestAPauseEndsWhenItIsLifted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		before := ratelimit.TokenBucket(10, time.Second, 10)
		l := newLimiter(t, ratelimit.Config{Limit: before})
		require.True(t, take(t, l, "k", 4).Allowed)
		setLimit(t, l, ratelimit.TokenBucket(1, ratelimit.MaxPeriod, 1))
		require.False(t, take(t, l, "k", 1).Allowed)
		require.True(t, take(t, l, "new", 1).Allowed, "a pause lets one pass")
		time.Sleep(time.Minute)
		setLimit(t, l, before)
		for _, key := range []string{"k", "new"} {
			require.True(t, take(t, l, key, 9).Allowed, "one is carried over")
			require.Equal(t, 100*time.Millisecond, take(t, l, key, 1).RetryAfter)
		}
	})
}

func TestARaiseIsFeltAtOnce(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{time.Minute, time.Hour} {
		for _, of := range []func(n int64) ratelimit.Limit{
			func(n int64) ratelimit.Limit { return ratelimit.FixedWindow(n, period) },
			func(n int64) ratelimit.Limit { return ratelimit.AlignedWindow(n, period) },
			func(n int64) ratelimit.Limit { return ratelimit.TokenBucket(n, period, n) },
			func(n int64) ratelimit.Limit { return ratelimit.SlidingWindow(n, period, 10) },
			func(n int64) ratelimit.Limit { return ratelimit.SlidingCounter(n, period) },
			func(n int64) ratelimit.Limit { return ratelimit.SlidingLog(n, period) },
		} {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: of(10)})
				require.True(t, take(t, l, "k", 10).Allowed)
				setLimit(t, l, of(50))
				r := take(t, l, "k", 40)
				require.True(t, r.Allowed, "%v", of(50))
				require.Zero(t, r.Remaining, "%v", of(50))
				require.Positive(t, take(t, l, "k", 1).RetryAfter)
			})
		}
	}
}

// After a change a wait of exactly RetryAfter is enough, and one that is shorter is not; and
// it is never longer than one full recovery of the limit in force.
func TestRetryAfterIsRightAfterAChange(t *testing.T) {
	t.Parallel()
	checkRetryAfterAfterAChange(t, 3)
}

// checkRetryAfterAfterAChange tries each step-th cost.
func checkRetryAfterAfterAChange(t *testing.T, step int64) {
	t.Helper()
	among := append(every(10, time.Hour), every(25, time.Minute)...)
	for _, before := range among {
		for _, after := range among {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(17 * time.Second)
				for i := int64(0); i < limits.Limit(after).Capacity(); i += step { // 0 to 9 or 24, with both ends
					l := newLimiter(t, ratelimit.Config{Limit: before})
					take(t, l, "k", limits.Limit(before).Capacity()-1)
					time.Sleep(time.Second)
					take(t, l, "k", 1)
					setLimit(t, l, after)
					time.Sleep(time.Second)
					r := take(t, l, "k", i+1)
					if r.Allowed {
						continue
					}
					require.LessOrEqual(t, r.RetryAfter, 2*spec(parts(after)[0]).Period)
					time.Sleep(r.RetryAfter - 1)
					require.False(t, take(t, l, "k", i+1).Allowed, "%v to %v: %d", before, after, i+1)
					time.Sleep(time.Nanosecond)
					require.True(t, take(t, l, "k", i+1).Allowed, "%v to %v: %d", before, after, i+1)
				}
			})
		}
	}
}

// Limits that are used in turn, as tiers are, do not block each other.
func TestTiersInTurnDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1000)})
		second := core.Must(l.WithLimit(ratelimit.PerSecond(10)))
		require.True(t, take(t, l, "k", 500).Allowed)
		require.Equal(t, time.Second, take(t, second, "k", 1).RetryAfter, "of the 500 taken just now")
		for range 10 {
			time.Sleep(time.Second)
			require.True(t, take(t, l, "k", 1).Allowed)
			require.True(t, take(t, second, "k", 9).Allowed)
			require.False(t, take(t, second, "k", 1).Allowed)
		}
		require.EqualValues(t, 400, mustPeek(t, l, "k").Remaining)
	})
}

func TestAKeyLimitCarriesOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(10)})
		require.True(t, take(t, l, "k", 10).Allowed)
		require.NoError(t, l.SetKeyLimit("k", ratelimit.PerSecond(5)))
		time.Sleep(time.Second)
		require.True(t, take(t, l, "k", 5).Allowed, "the change was a second ago")
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, l.SetKeyLimit("k", ratelimit.PerMinute(5)))
		time.Sleep(time.Second)
		require.Equal(t, 59*time.Second, take(t, l, "k", 1).RetryAfter)
		_ = l.SetKeyLimit("k", ratelimit.Limit{})
		require.False(t, take(t, l, "k", 1).Allowed, "the hour knows its own count")
		setLimit(t, l, ratelimit.PerHour(12))
		require.EqualValues(t, 2, mustPeek(t, l, "k").Remaining)
	})
}

// A look writes nothing: a key is carried over at its first operation that charges or
// refuses.
func TestATierBeginsWithItsFirstOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(10)})
		tier := core.Must(l.WithLimit(ratelimit.PerSecond(5)))
		require.True(t, take(t, l, "k", 10).Allowed)
		for range 3 {
			time.Sleep(time.Second)
			require.Zero(t, mustPeek(t, tier, "k").Remaining)
		}
		require.Equal(t, time.Second, take(t, tier, "k", 1).RetryAfter)
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, time.Millisecond, take(t, tier, "k", 1).RetryAfter)
		time.Sleep(time.Millisecond)
		require.True(t, take(t, tier, "k", 5).Allowed)
	})
}

func TestJoinedLimitsPair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		second, hour := ratelimit.PerSecond(10), ratelimit.PerHour(1000)
		l := newLimiter(t, ratelimit.Config{Limit: second.And(hour)})
		for range 50 {
			require.True(t, take(t, l, "k", 10).Allowed)
			time.Sleep(time.Second)
		}
		require.True(t, take(t, l, "k", 3).Allowed)
		setLimit(t, l, ratelimit.PerSecond(20).And(ratelimit.PerHour(600)))
		r := take(t, l, "k", 17)
		require.Zero(t, r.Remaining, "of the second, three were used")
		require.EqualValues(t, 20, r.Limit)
		time.Sleep(time.Second)
		require.EqualValues(t, 20, take(t, l, "k", 0).Remaining)
		setLimit(t, l, ratelimit.PerSecond(30))
		require.True(t, take(t, l, "k", 30).Allowed, "the hour is not in it")
		setLimit(t, l, ratelimit.PerSecond(30).And(ratelimit.PerHour(600)))
		require.EqualValues(t, 30, take(t, l, "k", 0).Limit)
		time.Sleep(time.Second)
		require.EqualValues(t, 20, take(t, l, "k", 10).Remaining)
		require.EqualValues(t, 40, mustPeek(t, core.Must(l.WithLimit(ratelimit.PerHour(600))), "k").Remaining, "it has its own count")
		day := ratelimit.TokenBucket(1000, 24*time.Hour, 1000)
		setLimit(t, l, ratelimit.PerSecond(30).And(day))
		require.EqualValues(t, 20, take(t, l, "k", 0).Remaining)
		require.EqualValues(t, 440, mustPeek(t, core.Must(l.WithLimit(day)), "k").Remaining, "the hour was not replaced by another")
	})
}

// shortLived are limits whose words of a key can be read for little longer than the usage lasts.
func shortLived() []ratelimit.Limit {
	return []ratelimit.Limit{
		ratelimit.PerSecond(1000), ratelimit.PerSecond(1_000_000), ratelimit.AlignedWindow(1_000_000, time.Second),
		ratelimit.PerSecond(1 << 38), ratelimit.TokenBucket(999_983, time.Second, 999_983),
	}
}

func TestAKeyThatRestedBeforeAChangeHasNoUsageToCarryOver(t *testing.T) {
	t.Parallel()
	for _, limit := range shortLived() {
		for rest := 2 * time.Second; rest < 365*24*time.Hour; rest = rest * 11 / 10 {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: limit})
				require.True(t, take(t, l, "k", spec(limit).Permits).Allowed)
				time.Sleep(rest)
				setLimit(t, l, ratelimit.PerHour(100))
				require.EqualValues(t, 100, mustPeek(t, l, "k").Remaining, "%v, after %v", limit, rest)
			})
		}
	}
}

func TestUsageThatWasCarriedOverRecoversHoweverLongTheKeyRests(t *testing.T) {
	t.Parallel()
	for _, limit := range shortLived() {
		for rest := 2 * time.Second; rest < 20*time.Hour; rest = rest * 13 / 10 {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1000, 24*time.Hour)})
				require.True(t, take(t, l, "k", 1000).Allowed)
				setLimit(t, l, limit)
				time.Sleep(rest)
				require.True(t, take(t, l, "k", spec(limit).Permits).Allowed, "%v, after %v", limit, rest)
			})
		}
	}
}

func TestALimitInForceDoesNotStartAgainWithTheUsageOfAnother(t *testing.T) {
	t.Parallel()
	for _, limit := range shortLived() {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, ratelimit.Config{Limit: ratelimit.FixedWindow(1000, 365*24*time.Hour)})
			require.True(t, take(t, l, "k", 1000).Allowed)
			setLimit(t, l, limit.And(ratelimit.SlidingLog(10, 240*time.Hour)))
			time.Sleep(time.Hour)
			r := take(t, l, "k", 10)
			require.Equal(t, 239*time.Hour, r.RetryAfter)
			time.Sleep(r.RetryAfter)
			require.True(t, take(t, l, "k", 10).Allowed, limit)
		})
	}
}
