package bulkhead_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

// Metrics read Admitted as a counter, so it never goes down.
func TestACallIsAdmittedWhenTheStoreHasDecided(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other    int // permits of another process
		own      int // permits of this one, for two seconds
		maxQueue int
		patience time.Duration
		want     uint64 // calls admitted in the end
	}{
		"free":                {0, 0, 0, time.Hour, 1},
		"full":                {2, 0, -1, time.Hour, 0},
		"full, and waits":     {2, 0, 0, time.Hour, 0},
		"full, and canceled":  {2, 0, 0, 2500 * time.Millisecond, 0},
		"queued":              {0, 2, 0, time.Hour, 2},
		"queued and canceled": {0, 2, 0, time.Second, 1},
		"queued, then full":   {1, 1, 0, time.Hour, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSharedStore()
			b := shared(s, func(cfg *bulkhead.Config) { cfg.MaxWait, cfg.MaxQueue = 5*time.Second, c.maxQueue })
			var own bulkhead.Permit
			if c.own > 0 {
				own = core.Must(b.AcquireN(t.Context(), "", c.own))
			}
			if c.other > 0 {
				held := core.Must(shared(s).AcquireN(t.Context(), "", c.other))
				defer held.Done(core.Ignored)
			}
			s.trip = time.Second
			time.AfterFunc(2*time.Second, func() { own.Done(core.Ignored) })
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			defer cancel()
			go func() {
				if p, err := b.AcquireN(ctx, "", 2); err == nil {
					p.Done(core.Ignored)
				}
			}()
			last := b.Stats().Admitted
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				now := b.Stats().Admitted
				require.GreaterOrEqual(t, now, last, name)
				last = now
			}
			require.Equal(t, c.want, last, name)
			require.Zero(t, b.Stats().InFlight, name)
		})
	}
}
