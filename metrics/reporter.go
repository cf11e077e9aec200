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
		collect: func(w *writer, e core.Entry) (panics uint64) {
			figures, panics := e.Instance.(core.Reporter).Figures() //nolint:forcetypeassert // see is
			for _, f := range figures {
				labels, values := []string{"name"}, []string{e.Name}
				if f.Label != "" {
					labels, values = append(labels, f.Label), append(values, f.Value)
				}
				typ := prometheus.GaugeValue
				if strings.HasSuffix(f.Name, "_total") {
					typ = prometheus.CounterValue
				}
				w.ch <- prometheus.MustNewConstMetric(c.newDesc(e.Kind+"_"+f.Name, f.Help, labels), typ, f.N, values...)
			}
			return panics
		},
	}}
}

// dropper is an event.Log of any type.
type dropper interface{ Dropped() uint64 }

func eventKinds(c *Collector, _ Config) []kind {
	return []kind{{
		is: func(instance any) bool { _, ok := instance.(dropper); return ok },
		collect: func(w *writer, e core.Entry) uint64 {
			dropped := c.desc("events_dropped_total", "Events that an event log dropped because it was full.", "kind", "name")
			counter(w.ch, dropped, e.Instance.(dropper).Dropped(), e.Kind, e.Name)
			return 0
		},
	}}
}
