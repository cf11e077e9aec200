package metrics_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/metrics"
	plugins "github.com/gresil/gresil/plugins/breaker"
)

func TestReloads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		b := core.Must(breaker.New(breaker.Config{Registry: registry}))
		require.Error(t, b.SetConfig(breaker.Config{Window: -1}))
		got := samples(t, g, "registry_reloads")
		requireSample(t, 0, got, "registry_reloads_total breaker success")
		requireSample(t, 1, got, "registry_reloads_total breaker failure")
		require.Empty(t, samples(t, g, "registry_last"))
		time.Sleep(time.Hour)
		require.NoError(t, b.SetConfig(breaker.Config{Window: 1}))
		now := float64(time.Now().UnixMilli()) / 1000
		time.Sleep(time.Hour)
		got = samples(t, g, "registry")
		requireSample(t, 1, got, "registry_reloads_total breaker success")
		requireSample(t, now, got, "registry_last_reload_success_timestamp_seconds breaker")
	})
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, hosts := range []bool{false, true} {
		registry := &core.Registry{}
		c := core.Must(metrics.New(registry, metrics.Config{Hosts: hosts}))
		vendor := core.Must(breaker.NewGroup(breaker.Config{Name: "vendor", Registry: registry}))
		accounts := core.Must(breaker.NewGroup(breaker.Config{Name: "accounts", Registry: registry}))
		plugins.NewClient(vendor, plugins.ClientOptions{})
		plugins.NewClient(accounts, plugins.ClientOptions{Key: func(*http.Request) (string, bool) { return "", true }})
		_, _ = breaker.Do(t.Context(), vendor.For("api.example.com"), succeed)
		require.NoError(t, vendor.For("other.example.com").OpenFor(time.Hour))
		_, _ = breaker.Do(t.Context(), accounts.For("secret"), succeed)
		got := samples(t, gatherer(t, c), "breaker_")
		if hosts {
			requireSample(t, 1, got, "breaker_state other.example.com vendor open")
			requireSample(t, 1, got, "breaker_calls_total api.example.com vendor success")
			requireSample(t, 2, got, "breaker_keys vendor")
			require.NotContains(t, got, "breaker_calls_total vendor success")
		} else {
			requireSample(t, 1, got, "breaker_state vendor open")
			requireSample(t, 1, got, "breaker_calls_total vendor success")
		}
		requireSample(t, 1, got, "breaker_calls_total accounts success")
		for name := range got {
			require.NotContains(t, name, "secret")
		}
	}
}

// A new config is no new instance: nothing that was counted is lost.
func TestAConfigThatIsTakenKeepsTheSeries(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	g := newGatherer(t, registry)
	b := core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry}))
	_, _ = breaker.Do(t.Context(), b, succeed)
	require.NoError(t, b.SetConfig(b.Config()))
	requireSample(t, 1, samples(t, g, ""), "breaker_call_duration_seconds db success count")
}

func TestACooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &core.Registry{}
		g := newGatherer(t, r)
		c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Registry: r, MaxKeys: 1}))
		c.Hold(t.Context(), "k", time.Second)
		p, err := c.Acquire(t.Context(), "k")
		require.NoError(t, err)
		p.Done(core.Success)
		c.Hold(t.Context(), "k", time.Hour)
		_, err = c.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, core.ErrRejected)
		got := samples(t, g, "cooldown_")
		requireSample(t, 2, got, "cooldown_holds_total held vendor")
		requireSample(t, 1, got, "cooldown_holds_total resumed vendor")
		requireSample(t, 1, got, "cooldown_calls_total vendor waited")
		requireSample(t, 1, got, "cooldown_calls_total vendor rejected")
		requireSample(t, 1, got, "cooldown_keys vendor")
		requireSample(t, 0, got, "cooldown_waiting vendor")
	})
}
