package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
)

func TestBatchSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		b := core.Must(batch.New(batch.Config[string, int]{
			Name: "merge", Registry: registry, Option: func(s string) string { return s },
			Exempt: func(s string) bool { return s == "exempt" },
			Send: func(_ context.Context, option string, records []string) ([]batch.Result[int], error) {
				if option == "bad" {
					return nil, core.Permanent(errors.New("400"))
				}
				return make([]batch.Result[int], len(records)), nil
			},
		}))
		require.Len(t, samples(t, g, "batch_"), 18)
		for _, record := range []string{"a", "a", "bad", "bad", "exempt"} {
			_ = core.Must(b.Add(t.Context(), record))
		}
		go func() { _ = b.Run(context.WithoutCancel(t.Context())) }()
		require.NoError(t, b.Drain(t.Context()))
		_, err := b.Add(t.Context(), "late")
		require.ErrorIs(t, err, batch.ErrClosed)
		got := samples(t, g, "batch_")
		for name, want := range map[string]float64{
			"batch_calls_total merge answered": 2, "batch_calls_total merge failed": 3, "batch_splits_total merge": 1,
			"batch_added_total merge grouped": 4, "batch_added_total merge exempt": 1, "batch_added_total merge rejected": 1,
			"batch_records_total merge sent": 2, "batch_records_total merge failed": 2, "batch_records merge": 0,
		} {
			requireSample(t, want, got, name)
		}
		require.NoError(t, b.Close())
		require.Empty(t, samples(t, g, "batch_"))
	})
}
