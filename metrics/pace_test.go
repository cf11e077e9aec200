package metrics_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
)

func TestPaceSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		p := core.Must(pace.New(pace.Config{
			Name: "sms", Registry: registry, Rates: []pace.Rate{{Calls: 1, Per: time.Second}}, MaxWait: 2 * time.Second,
			Refresh: func(context.Context) ([]pace.Rate, error) { return nil, errDown },
			Hooks:   pace.Hooks{Waited: func(context.Context, pace.Info) { panic("hook") }},
		}))
		require.Len(t, samples(t, g, "pace_"), 11)
		for range 2 {
			_ = core.Must(p.Wait(t.Context(), "k", 1))
		}
		_ = core.Must(p.Reserve(t.Context(), "k", 1))
		_, err := p.Reserve(t.Context(), "k", 1)
		require.ErrorIs(t, err, pace.ErrLimited)
		got := samples(t, g, "pace_")
		for name, want := range map[string]float64{
			"pace_calls_total sms permitted": 3, "pace_calls_total sms rejected": 1, "pace_waits_total sms": 1,
			"pace_unused_permits_total sms stale": 0, "pace_unused_permits_total sms state_lost": 0, "pace_store_errors_total sms": 0,
			"pace_refreshes_total sms read": 0, "pace_refreshes_total sms failed": 1,
			"pace_waiting sms": 0, "pace_reserved sms": 0, "pace_interval_seconds sms": 1.05,
		} {
			requireSample(t, want, got, name)
		}
		require.NoError(t, p.Close())
		require.Empty(t, samples(t, g, "pace_"))
	})
}
