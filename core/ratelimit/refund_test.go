package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

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
				require.NoError(t, l.Refund(t.Context(), said))
				r := mustPeek(t, l, "k")
				require.Equal(t, [2]int64{5, 5}, [2]int64{r.Limit, r.Remaining})
				require.Zero(t, r.FullAfter)
				time.Sleep(50 * time.Minute)
				l.Stats() // sweeps
				again := take(5)
				require.Equal(t, ends, time.Now().Add(again.FullAfter))
				require.NoError(t, l.Refund(t.Context(), again))
				time.Sleep(time.Until(ends))
				require.Equal(t, said.FullAfter, take(1).FullAfter, "a new one")
				time.Sleep(5 * time.Hour)
				require.LessOrEqual(t, l.Stats().Keys, 0)
			})
		})
	}
}
