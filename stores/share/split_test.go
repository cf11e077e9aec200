package share

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestSharesAreNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for l, want := range map[ratelimit.Limit]ratelimit.Limit{
		ratelimit.PerMinute(10):                                      ratelimit.PerMinute(3),
		ratelimit.PerSecond(1):                                       ratelimit.FixedWindow(1, 3*time.Second),
		ratelimit.PerSecond(2):                                       ratelimit.FixedWindow(1, 2*time.Second),
		ratelimit.AlignedWindow(2, time.Hour):                        ratelimit.FixedWindow(1, 2*time.Hour),
		ratelimit.SlidingWindow(1, time.Second, 10):                  ratelimit.FixedWindow(1, 3*time.Second),
		ratelimit.TokenBucket(10, time.Second, 20):                   ratelimit.TokenBucket(10, 3*time.Second, 6),
		ratelimit.TokenBucket(9, time.Second, 20):                    ratelimit.TokenBucket(3, time.Second, 6),
		ratelimit.TokenBucket(10, time.Second, 1):                    ratelimit.TokenBucket(10, 3*time.Second, 1),
		ratelimit.FixedWindow(1, limits.MaxPeriod):                   ratelimit.FixedWindow(1, limits.MaxPeriod),
		ratelimit.TokenBucket(7, limits.MaxPeriod, 7):                ratelimit.TokenBucket(2, limits.MaxPeriod, 2),
		ratelimit.SlidingCounter(10, time.Hour):                      ratelimit.SlidingCounter(3, time.Hour),
		ratelimit.TokenBucket(limits.MaxPermits, time.Hour, 1<<38-1): ratelimit.TokenBucket(limits.MaxPermits, 3*time.Hour, (1<<38-1)/3),
	} {
		require.Equal(t, spec(want), split(spec(l), 3), l.String())
		require.Equal(t, spec(l), split(spec(l), 1))
	}
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // a test is repeated by its seed
	for range 20_000 {
		period := time.Duration(1+rng.Int64N(1<<(1+rng.IntN(30)))) * time.Microsecond
		permits, n := 1+rng.Int64N(1<<(1+rng.IntN(20))), 1+rng.Int64N(300)
		for _, l := range []ratelimit.Limit{ratelimit.FixedWindow(permits, period), ratelimit.SlidingLog(min(permits, limits.MaxLogPermits), period), ratelimit.TokenBucket(permits, period, 1+rng.Int64N(1<<20))} {
			l := spec(l)
			if limits.Of(l).Refuse() != "" {
				continue
			}
			s := split(l, n)
			all, most := float64(s.Permits*n)/float64(s.Period), float64(l.Permits)/float64(l.Period)*(1+1e-12)
			if reason := limits.Of(s).Refuse(); reason != "" || all > most || s.Burst > max(1, l.Burst/n) {
				t.Fatalf("%v of %d: %v %s", l, n, s, reason)
			}
		}
	}
	// A bucket of few permits in a long period.
	month := 30 * 24 * time.Hour
	require.Equal(t, spec(ratelimit.TokenBucket(1, 36*month, 1)), split(spec(ratelimit.TokenBucket(2, 8*month, 12)), 9))
	// Two that come to be of one kind are one.
	p := &plan{parts: []*plan{{limit: spec(ratelimit.FixedWindow(1, 20*time.Second))}, {limit: spec(ratelimit.FixedWindow(100, time.Minute))}}}
	require.Equal(t, limits.Limit(ratelimit.PerMinute(1)).Specs(), p.split(3))
	require.Equal(t, limits.Limit(ratelimit.FixedWindow(1, 20*time.Second).And(ratelimit.FixedWindow(100, time.Minute))).Specs(), p.split(1))
}

// TestTurnsOfInstances: each has one in so many periods, and in no period there are more than permits.
func TestTurnsOfInstances(t *testing.T) {
	t.Parallel()
	for n := int64(2); n < 20; n++ {
		for permits := int64(1); permits < n; permits++ {
			window, bucket := ratelimit.FixedWindow(permits, time.Second), ratelimit.TokenBucket(permits, time.Second, 1)
			for _, l := range []limits.Spec{spec(window), spec(bucket)} {
				step, most, steps := time.Second, permits, rounds(l, n)
				if l == spec(bucket) { // one after the other, which may not be whole nanoseconds
					step, most, steps = mulDiv(1, int64(time.Second), permits), 1, n
				}
				had := map[int64]int{}
				for i := range steps {
					now, all := time.Duration(steps*1000+i)*step+step/2, int64(0)
					for rank := range n {
						wait := turn(l, instances{n, rank, now})
						require.Zero(t, turn(l, instances{n, rank, now + wait}))
						if wait == 0 {
							had[rank]++
							all++
						}
					}
					require.LessOrEqual(t, all, most, "%d of %d: %v", permits, n, l)
				}
				require.Len(t, had, int(n))
				for _, times := range had {
					require.Equal(t, 1, times)
				}
			}
		}
	}
	require.Positive(t, turn(spec(ratelimit.FixedWindow(1, limits.MaxPeriod)), instances{1000, 999, 0}))
}

// TestInstancesTakeTurns: with fewer permits than instances, those that ask all the time get what
// the limit has, and no more in any period, from the beginning on.
func TestInstancesTakeTurns(t *testing.T) {
	t.Parallel()
	const n, period, permits, periods = 6, time.Second, 2, 30
	limits := kinds(permits, period)
	limits["shaper"] = ratelimit.TokenBucket(2, time.Second, 1)
	limits["joined"] = ratelimit.TokenBucket(2, time.Second, 1).And(ratelimit.FixedWindow(permits*periods, periods*period))
	delete(limits, "several") // it joins those above: its turns are the common ones
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stores, limiters := newGroup(t, n, limit)
				for _, s := range stores {
					s.Down()
				}
				granted, sum := [periods]int64{}, int64(0)
				burst := int64(permits)
				if name == "shaper" || name == "joined" {
					burst = 1
				}
				for now := range periods * 20 {
					at := int64(0)
					for _, l := range limiters {
						r, err := l.TakeAtMost(t.Context(), "k", 5)
						require.NoError(t, err)
						at += r.Permits
					}
					require.LessOrEqual(t, at, burst, "at once, after %d", now)
					granted[now/20] += at
					sum += at
					time.Sleep(period / 20)
				}
				for _, one := range granted {
					require.LessOrEqual(t, one, int64(permits), granted)
				}
				require.GreaterOrEqual(t, sum, int64(permits*periods*8/10), granted)
			})
		})
	}
}

// What the store has granted just before counts in the first turns too.
func TestTurnsBeginAfterTheUsageHasRecovered(t *testing.T) {
	t.Parallel()
	for name, limit := range kinds(2, time.Second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stores, limiters := newGroup(t, 5, limit)
				require.True(t, take(t, limiters[0], "k", 2).Allowed)
				for _, s := range stores {
					s.Down()
				}
				start := time.Now()
				for time.Since(start) < 990*time.Millisecond {
					for _, l := range limiters {
						require.Zero(t, takeAll(t, l, "k"))
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		})
	}
}
