package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/cooldown"
)

type cooldownMetrics struct{ holds, calls, overdue, evicted, store, keys, waiting *prometheus.Desc }

func cooldownKinds(c *Collector, _ Config) []kind {
	m := &cooldownMetrics{}
	m.holds = c.desc("cooldown_holds_total", "Holds of a key (held), and first successful calls after one (resumed).", "name", "event")
	m.calls = c.desc("cooldown_calls_total", "Calls to a held key that had to wait or were rejected, by result; each call has one.", "name", "result")
	m.overdue = c.desc("cooldown_overdue_probes_total", "Calls after a hold that took longer than ProbeTimeout and lost their slot; those that had waited are among the calls too.", "name")
	m.evicted = c.desc("cooldown_evicted_holds_total", "Holds evicted: MaxKeys was reached.", "name")
	m.store = c.desc("cooldown_store_failures_total", "Times that the store of the holds became unavailable.", "name")
	m.keys = c.desc("cooldown_keys", "Keys that are held, or in the ramp after a hold.", "name")
	m.waiting = c.desc("cooldown_waiting", "Calls that wait.", "name")
	k := kindOf("cooldown", m.collect)
	k.part = true // of a client limiter
	return []kind{k}
}

func (m *cooldownMetrics) collect(ch chan<- prometheus.Metric, name string, c *cooldown.Cooldown) (panics uint64) {
	s := c.Stats()
	counter(ch, m.holds, s.Holds, name, "held")
	counter(ch, m.holds, s.Resumed, name, "resumed")
	counter(ch, m.calls, s.Waited, name, "waited")
	counter(ch, m.calls, s.Rejected, name, "rejected")
	counter(ch, m.calls, s.Canceled, name, "canceled")
	counter(ch, m.overdue, s.Overdue, name)
	counter(ch, m.evicted, s.Evicted, name)
	counter(ch, m.store, s.StoreFailures, name)
	gauge(ch, m.keys, float64(s.Keys), name)
	gauge(ch, m.waiting, float64(s.Waiting), name)
	return s.HookPanics
}
