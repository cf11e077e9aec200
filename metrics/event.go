package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
)

// dropper is an event.Log of any type.
type dropper interface{ Dropped() uint64 }

func eventKinds(c *Collector, _ Config) []kind {
	dropped := c.desc("events_dropped_total", "Events that an event log dropped because it was full.", "kind", "name")
	return []kind{{
		is: func(instance any) bool { _, ok := instance.(dropper); return ok },
		collect: func(ch chan<- prometheus.Metric, e core.Entry) uint64 {
			counter(ch, dropped, e.Instance.(dropper).Dropped(), e.Kind, e.Name)
			return 0
		},
	}}
}
