package metrics_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
)

// As the client of plugins/ratelimit is.
func TestTheCooldownOfALimiterHasItsName(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "vendor"}))
	gate := core.Must(cooldown.New(cooldown.Config{Name: "vendor"}))
	gate.Hold(t.Context(), "key", time.Hour)
	_, err := limiter.Take(t.Context(), "key", 1)
	require.NoError(t, err)
	require.NoError(t, registry.Add("ratelimit", "vendor", &composed{limiter, gate}))
	g := newGatherer(t, registry)
	got := samples(t, g, "")
	requireSample(t, 1, got, "ratelimit_requests_total vendor allowed")
	requireSample(t, 1, got, "cooldown_holds_total held vendor")
	requireSample(t, 0, got, "hook_panics_total ratelimit vendor")
	requireSample(t, 1, got, "registry_entries ratelimit")
	requireSample(t, 0, got, "registry_entries cooldown")

	// An entry of the same kind and name has the series.
	own := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Registry: registry}))
	got = samples(t, g, "")
	requireSample(t, 0, got, "cooldown_holds_total held vendor")
	require.NoError(t, own.Close())
	requireSample(t, 1, samples(t, g, ""), "cooldown_holds_total held vendor")
}
