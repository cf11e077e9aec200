package pace_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
)

// TestTheWorstDelaysFillAWindowAndNoMore: all calls with a slot within Slack and Skew of the first arrive
// together at the end of that time, and the later ones without delay.
func TestTheWorstDelaysFillAWindowAndNoMore(t *testing.T) {
	t.Parallel()
	const skew = 30 * time.Millisecond
	for _, c := range []struct {
		calls, burst, cost int64
		mode               pace.Mode
	}{
		{1, 0, 1, pace.Rolling},
		{2, 0, 1, pace.Rolling},
		{3, 0, 1, pace.Rolling},
		{7, 0, 1, pace.Rolling},
		{1000, 0, 1, pace.Rolling},
		{2, 2, 1, pace.Rolling},
		{10, 3, 1, pace.Rolling},
		{10, 10, 1, pace.Rolling},
		{1000, 100, 1, pace.Rolling},
		{10, 3, 3, pace.Rolling},
		{10, 5, 2, pace.Rolling},
		{100, 7, 7, pace.Rolling},
		{1, 0, 1, pace.SlidingLog},
		{10, 0, 1, pace.SlidingLog},
		{10, 0, 3, pace.SlidingLog},
		{1000, 0, 1, pace.SlidingLog},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: c.calls, Per: time.Second, Burst: c.burst}}, Mode: c.mode, Skew: skew})
				start, sum := time.Now(), int64(0)
				from := start.Add(slack + skew)
				for range 2 * c.calls / c.cost {
					permit := core.Must(p.Reserve(t.Context(), "k", c.cost))
					require.False(t, permit.At.Before(start))
					arrives := permit.At
					if arrives.Before(from) {
						arrives = from
					}
					if arrives.Sub(from) < time.Second {
						sum += c.cost
					}
				}
				require.LessOrEqual(t, sum, c.calls)
				require.GreaterOrEqual(t, sum, c.calls-2*c.cost+2, "and no less than it can")
			})
		})
	}
}

// TestThePermitOfASlowStoreIsNeitherEarlyNorLate: the store decides between the request and the reply.
func TestThePermitOfASlowStoreIsNeitherEarlyNorLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, before, after := newRemote(), 7*time.Millisecond, 11*time.Millisecond
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(10), Store: s})
		first := true
		s.lag = func() time.Duration {
			if first = !first; first {
				return after
			}
			return before
		}
		slot := time.Now().Add(before)
		for range 5 {
			permit := core.Must(p.Reserve(t.Context(), "k", 1))
			require.Equal(t, slot.Add(after), permit.At)
			require.Equal(t, slot.Add(slack-before-time.Microsecond), permit.NotAfter)
			slot = slot.Add(105 * time.Millisecond)
		}
	})
}
