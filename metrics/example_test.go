package metrics_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/metrics"
)

func ExampleCollector() {
	registry := &core.Registry{}
	limiter := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.PerMinute(2)}))
	exported := prometheus.NewRegistry()
	exported.MustRegister(core.Must(metrics.New(registry, metrics.Config{})))

	for range 3 {
		_, _ = limiter.Take(context.Background(), "203.0.113.7", 1)
	}
	families, _ := exported.Gather()
	for _, f := range families {
		if f.GetName() == "resilience_ratelimit_requests_total" {
			for _, m := range f.GetMetric() {
				fmt.Println(m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	// Output:
	// api allowed 2
	// api canceled 0
	// api error 0
	// api throttled 1
}
