package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
)

// dispatchKinds has the dispatchers, which report their figures themselves.
func dispatchKinds(c *Collector, _ Config) []kind {
	return []kind{kindOf("dispatch", func(ch chan<- prometheus.Metric, name string, r core.Reporter) (panics uint64) {
		figures, panics := r.Figures()
		for _, f := range figures {
			labels, values := []string{"name"}, []string{name}
			if f.Label != "" {
				labels, values = append(labels, f.Label), append(values, f.Value)
			}
			desc, typ := c.desc("dispatch_"+f.Name, f.Help, labels...), prometheus.GaugeValue
			if strings.HasSuffix(f.Name, "_total") {
				typ = prometheus.CounterValue
			}
			ch <- prometheus.MustNewConstMetric(desc, typ, f.N, values...)
		}
		return panics
	})}
}
