package metrics_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func TestBreakerSlowCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b, err := breaker.New(breaker.Config{
			Name: "db", Registry: registry, Window: 4, MinCalls: 3, FailureRate: 1,
			SlowCall: time.Second, SlowRate: 0.5, Initial: breaker.MetricsOnly,
		})
		require.NoError(t, err)
		_, err = breaker.New(breaker.Config{Name: "other", Registry: registry})
		require.NoError(t, err)
		g := newGatherer(t, registry)
		slowly := func(err error) func(context.Context) (int, error) {
			return func(context.Context) (int, error) { time.Sleep(time.Second + 1); return 0, err }
		}
		_, _ = breaker.Do(t.Context(), b, slowly(nil))
		_, _ = breaker.Do(t.Context(), b, slowly(errDown))
		got := samples(t, g, "breaker")
		require.NotContains(t, got, "breaker_slow_call_ratio db", "too few calls")
		require.NotContains(t, got, "breaker_slow_call_ratio_threshold other", "no call is slow")
		_, _ = breaker.Do(t.Context(), b, slowly(errDown))
		_, _ = breaker.Do(t.Context(), b, succeed)
		late, err := b.Acquire(t.Context())
		require.NoError(t, err)
		later, err := b.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.SetState(breaker.ForcedOpen))
		late.Done(core.Success)
		later.Done(core.Failure)
		got = samples(t, g, "breaker")
		for name, want := range map[string]float64{
			"breaker_slow_calls_total db":          3,
			"breaker_slow_calls_total other":       0,
			"breaker_window_slow_calls db":         3,
			"breaker_window_calls db success":      2,
			"breaker_window_calls db failure":      2,
			"breaker_slow_call_ratio db":           0.75,
			"breaker_slow_call_ratio_threshold db": 0.5,
			"breaker_failure_ratio db":             0.5,
			"breaker_calls_total db ignored":       2,
			"breaker_calls_total other ignored":    0,
		} {
			requireSample(t, want, got, name)
		}
	})
}

func TestBreakerGroupTellsOfItsOverflow(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	group, err := breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry, Window: 1, MaxKeys: 1})
	require.NoError(t, err)
	g := newGatherer(t, registry)
	require.NoError(t, group.For("a").OpenFor(time.Hour))
	_, _ = breaker.Do(t.Context(), group.For("b"), func(context.Context) (int, error) { return 0, errDown })
	_, _ = breaker.Do(t.Context(), group.For("b"), succeed)
	got := samples(t, g, "")
	for name, want := range map[string]float64{
		"breaker_key_overflows_total hosts":       2,
		"breaker_opened_total hosts":              2,
		"breaker_state hosts open":                2,
		"breaker_keys hosts":                      1,
		"breaker_calls_total hosts not_permitted": 1,
	} {
		requireSample(t, want, got, name)
	}
}
