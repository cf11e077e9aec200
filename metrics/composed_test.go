package metrics_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/event"
	"github.com/gresil/gresil/core/retry"
)

// A composed is built on mechanisms, as a plugin is.
type composed []any

func (c *composed) Mechanisms() []any { return *c }

func TestTheMechanismsOfAComposedInstanceHaveItsName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		policy := core.Must(retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{Wait: time.Second}}))
		policy.Observe(retry.Hooks{Retried: func(context.Context, retry.Info) { panic("hook") }})
		plugin := &composed{policy, core.Must(event.New[string](1))}
		require.NoError(t, registry.Add("retry", "api", plugin))
		g := newGatherer(t, registry)
		_, _ = retry.Do(t.Context(), policy, fail)
		got := samples(t, g, "")
		requireSample(t, 1, got, "registry_entries retry")
		requireSample(t, 1, got, "retry_calls_total api failure true")
		requireSample(t, 1, got, "retry_backoff_seconds api backoff sum")
		requireSample(t, 1, got, "hook_panics_total retry api")
		requireSample(t, 0, got, "events_dropped_total retry api")
		registry.Remove("retry", "api", plugin)
		_, _ = retry.Do(t.Context(), policy, fail)
		require.NotContains(t, samples(t, g, "retry"), "retry_backoff_seconds api backoff sum")
	})
}
