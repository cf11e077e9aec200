package standard_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

// The parts are in the registry themselves; metrics and logs find their mechanisms.
func TestMetricsAndLogsSeeThePartsOfAClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		c := newClient(t, standard.Config{
			Name: "orders", Registry: registry,
			HTTP:  http.Client{Transport: resiltest.NewScript(resiltest.Reply{Delay: time.Hour}, resiltest.Reply{})},
			Retry: retry.Config{Backoff: backoff.Constant{Delay: time.Second}},
		})
		collector := core.Must(metrics.New(registry, metrics.Config{}))
		var text bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		logged := make(chan error)
		go func() {
			logged <- logs.Run(ctx, registry, slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})), logs.Config{Calls: true})
		}()
		synctest.Wait()
		resp, err := c.Get("http://one.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		stop()
		require.NoError(t, <-logged)

		gatherer := prometheus.NewPedanticRegistry()
		require.NoError(t, gatherer.Register(collector))
		families, err := gatherer.Gather()
		require.NoError(t, err)
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				values[strings.TrimPrefix(f.GetName(), "resilience_")+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
		for name, want := range map[string]float64{
			"retry_calls_total orders success true":      1,
			"retry_backoff_seconds orders backoff":       1,
			"timeout_calls_total orders-attempt timeout": 1,
			"timeout_calls_total orders-total success":   1,
			"timeout_limit_seconds orders-attempt":       10,
			"registry_entries timeout":                   2,
			"breaker_calls_total orders failure":         1,
		} {
			require.Contains(t, values, name)
			require.InDelta(t, want, values[name], 1e-9, name)
		}
		require.Contains(t, text.String(), `msg="attempt failed, a retry follows" kind=retry name=orders`)
		require.Contains(t, text.String(), `kind=timeout name=orders-attempt`)
	})
}

func TestAPartHasTheDefaultsOfItsPlugin(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	c := newClient(t, standard.Config{Registry: registry, Total: timeout.Config{Limit: time.Minute}, Attempt: timeout.Config{Limit: time.Second}})
	total, _ := core.Lookup[*timeout.Timeout](registry, "standard-total")
	require.Same(t, c.Total, total)
	require.NoError(t, total.SetConfig(timeout.Config{Limit: time.Hour}))
	require.Equal(t, time.Hour, c.Total.Config().Limit)
}
