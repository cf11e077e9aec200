package batch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/outbound/batch"
)

// Figures has the differences of these counters: one that decreases between two scrapes is a restart for
// Prometheus.
func TestPartsOfCountersAddUpInEachReading(t *testing.T) {
	t.Parallel()
	b := core.Must(batch.New(batch.Config[int, string]{
		Registry: &core.Registry{},
		Send:     func(context.Context, string, []int) ([]batch.Result[string], error) { return nil, errors.New("down") },
		Unique:   batch.UntilFlushed, Key: func(int) string { return "one" },
		Exempt: func(n int) bool { return n == 0 },
	}))
	add(t, b, 1)
	var stop atomic.Bool
	var adders sync.WaitGroup
	for n := range 2 { // calls that fail, and records that are replaced
		adders.Go(func() {
			for !stop.Load() {
				_, _ = b.Add(t.Context(), n)
			}
		})
	}
	wrong := 0
	for range 1_000_000 {
		if s := b.Stats(); s.Added != s.Replaced+1 || s.Calls != s.CallsFailed {
			wrong++
		}
	}
	stop.Store(true)
	adders.Wait()
	require.Zero(t, wrong)
	s := b.Stats()
	require.Positive(t, s.Replaced)
	require.Positive(t, s.Calls)
	figures := instance.Inner(b.Config().Registry).Figures()
	parts := map[string]uint64{}
	for _, f := range figures {
		parts[f.Name+" "+valueOf(f)] = uint64(f.N)
	}
	require.EqualValues(t, 1, parts["added_total grouped"])
	require.Equal(t, s.Replaced, parts["added_total replaced"])
	require.EqualValues(t, 0, parts["calls_total answered"])
	require.Equal(t, s.CallsFailed, parts["calls_total failed"])
	require.Error(t, b.Close(), "one record was not sent")
}
