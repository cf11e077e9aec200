package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
)

// reporterKinds has the services, such as dispatchers and pacers, which report their figures
// themselves. The names of their series begin with their kind.
func reporterKinds(c *Collector, _ Config) []kind {
	return []kind{{
		hooks: true,
		is:    func(instance any) bool { _, ok := instance.(core.Reporter); return ok },
		collect: func(ch chan<- prometheus.Metric, e core.Entry) (panics uint64) {
			figures, panics := e.Instance.(core.Reporter).Figures() //nolint:forcetypeassert // see is
			for _, f := range figures {
				labels, values := []string{"name"}, []string{e.Name}
				if f.Label != "" {
					labels, values = append(labels, f.Label), append(values, f.Value)
				}
				desc, typ := c.desc(e.Kind+"_"+f.Name, f.Help, labels...), prometheus.GaugeValue
				if strings.HasSuffix(f.Name, "_total") {
					typ = prometheus.CounterValue
				}
				ch <- prometheus.MustNewConstMetric(desc, typ, f.N, values...)
			}
			return panics
		},
	}}
}
