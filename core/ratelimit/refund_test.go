package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
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
