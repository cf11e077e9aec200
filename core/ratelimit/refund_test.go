package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// standsAs is a Result without the receipt.
func standsAs(r ratelimit.Result) ratelimit.Result {
	r.Receipt = limits.Receipt{}
	return r
}

// A refund reports how the key stands under the limit in force, as a Peek after it does.
func TestARefundReportsTheLimitInForce(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(n int64) ratelimit.Limit{
		"window": ratelimit.PerHour,
		"bucket": func(n int64) ratelimit.Limit { return ratelimit.TokenBucket(n, time.Hour, n) },
		"log":    func(n int64) ratelimit.Limit { return ratelimit.SlidingLog(n, time.Hour) },
		"counter": func(n int64) ratelimit.Limit {
			return ratelimit.SlidingCounter(n, time.Hour)
		},
		"joined": func(n int64) ratelimit.Limit { return ratelimit.PerHour(n).And(ratelimit.SlidingLog(n+1, time.Hour)) },
	}
	for from, was := range kinds {
		for to, now := range kinds {
			for name, change := range map[string]func(*testing.T, *ratelimit.Limiter, ratelimit.Limit) *ratelimit.Limiter{
				"SetLimit": func(t *testing.T, l *ratelimit.Limiter, limit ratelimit.Limit) *ratelimit.Limiter {
					t.Helper()
					require.NoError(t, l.SetLimit(limit))
					return l
				},
				"Override": func(t *testing.T, l *ratelimit.Limiter, limit ratelimit.Limit) *ratelimit.Limiter {
					t.Helper()
					require.NoError(t, l.SetKeyLimit("k", limit))
					return l
				},
			} {
				t.Run(name+" from "+from+" to "+to, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						l := newLimiter(t, ratelimit.Config{Limit: was(10)})
						first, err := l.Take(t.Context(), "k", 2)
						require.NoError(t, err)
						l = change(t, l, now(20))
						r, err := l.Refund(t.Context(), "k", first)
						require.NoError(t, err)
						want, err := l.Peek(t.Context(), "k")
						require.NoError(t, err)
						require.Equal(t, standsAs(want), standsAs(r))
						if name == "Override" && to != "joined" {
							require.EqualValues(t, 20, r.Limit)
						}
					})
				})
			}
		}
	}
}

// Limiters by With hold the same keys to limits of their own, all of which are in force.
func TestARefundReportsTheLimitOfTheLimiterThatTook(t *testing.T) {
	t.Parallel()
	for _, store := range []ratelimit.Store{nil, &ratelimittest.Failing{Store: openMemory(t)}} {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(10), Store: store})
		gold, err := l.WithLimit(ratelimit.PerHour(100))
		require.NoError(t, err)
		back := func(l *ratelimit.Limiter, take ratelimit.Result) [2]int64 {
			r, err := l.Refund(t.Context(), "k", take)
			require.NoError(t, err)
			return [2]int64{r.Limit, r.Remaining}
		}
		of := func(l *ratelimit.Limiter, n int64) ratelimit.Result { return take(t, l, "k", n) }
		one, two, three, four := of(l, 1), of(gold, 2), of(l, 3), of(gold, 4)
		require.Equal(t, [2]int64{10, 1}, back(gold, one))
		require.Equal(t, [2]int64{100, 92}, back(l, two), "one was carried over")
		require.NoError(t, l.SetLimit(ratelimit.FixedWindow(1000, 24*time.Hour)))
		require.Equal(t, [2]int64{1000, 992}, back(l, three), "eight were carried over")
		require.Equal(t, [2]int64{100, 99}, back(l, four))
		six := of(l, 6)
		require.Equal(t, [2]int64{1000, 992}, back(l, six), "the limit has changed")
		five := of(gold, 5)
		require.NoError(t, l.SetKeyLimit("k", ratelimit.PerHour(50)))
		require.Equal(t, [2]int64{50, 37}, back(gold, five))
	}
}

// A window whose only take is refunded still ends when it said, also if its slot is swept in
// the meantime.
func TestAWindowWhoseOnlyTakeIsRefundedKeepsItsStart(t *testing.T) {
	t.Parallel()
	for _, limit := range []ratelimit.Limit{
		ratelimit.FixedWindow(5, time.Hour), ratelimit.AlignedWindow(5, time.Hour), ratelimit.FixedWindow(1e9, time.Hour).And(ratelimit.FixedWindow(5, 2*time.Hour)), ratelimit.SlidingCounter(5, time.Hour),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, ratelimit.Config{Limit: limit})
				take := func(n int64) ratelimit.Result {
					r, err := l.Take(t.Context(), "k", n)
					require.NoError(t, err)
					require.True(t, r.Allowed)
					return r
				}
				said := take(3)
				ends := time.Now().Add(said.FullAfter)
				r, err := l.Refund(t.Context(), "k", said)
				require.NoError(t, err)
				require.Equal(t, [2]int64{5, 5}, [2]int64{r.Limit, r.Remaining})
				require.Zero(t, r.FullAfter)
				time.Sleep(50 * time.Minute)
				l.Stats() // sweeps
				again := take(5)
				require.Equal(t, ends, time.Now().Add(again.FullAfter))
				_, err = l.Refund(t.Context(), "k", again)
				require.NoError(t, err)
				time.Sleep(time.Until(ends))
				require.Equal(t, said.FullAfter, take(1).FullAfter, "a new one")
				time.Sleep(5 * time.Hour)
				require.LessOrEqual(t, l.Stats().Keys, 0)
			})
		})
	}
}

func TestARefundReportsTheLimitInForceAlsoIfATierHasTheOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(10)})
		tier := core.Must(l.WithLimit(ratelimit.PerHour(10)))
		first, second := take(t, l, "k", 1), take(t, tier, "k", 1)
		setLimit(t, l, ratelimit.PerHour(100))
		require.EqualValues(t, 10, core.Must(tier.Refund(t.Context(), "k", second)).Limit)
		back := core.Must(l.Refund(t.Context(), "k", first))
		require.EqualValues(t, 100, back.Limit)
		require.Equal(t, standsAs(mustPeek(t, l, "k")), standsAs(back))
	})
}
