package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// A window whose start is kept in long ticks ends between two of them. The key is not dropped before
// the tick is over: it would begin its next window in that tick, before the last one is over.
func TestASweepStartsNoWindowBeforeTheLastIsOver(t *testing.T) {
	t.Parallel()
	for _, l := range []Limit{FixedWindow(MaxPermits, MaxPeriod), FixedWindow(1e9, time.Minute), FixedWindow(1, MaxPeriod), FixedWindow(1e9, time.Minute).And(FixedWindow(1e10, time.Hour))} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			tab, ids := newTestTable(t, 0, l)
			cost := spec(l).Permits
			const start = 1_234_567_891_234
			end := start + mustApply(t, tab, start, "k", ids[0], limits.Op{Cost: cost}).FullAfter
			for i := range tab.shards {
				tab.shards[i].sweep(tab, int64(end))
			}
			full := mustApply(t, tab, end, "k", ids[0], limits.Op{Cost: cost})
			require.True(t, full.Allowed)
			require.GreaterOrEqual(t, full.FullAfter, spec(l).Period)
			later := end + full.FullAfter
			for i := range tab.shards {
				tab.shards[i].sweep(tab, int64(later+3*spec(l).Period+3*time.Hour))
			}
			require.Zero(t, tab.keys.Load(), "a key that owes nothing is dropped")
		})
	}
}
