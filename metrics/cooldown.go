package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/cooldown"
)

type cooldownMetrics struct{ holds, calls, evicted, keys, waiting *prometheus.Desc }

func (m *cooldownMetrics) init(c *Collector) {
	m.holds = c.desc("cooldown_holds_total", "Times that a key was held (held) and that the first call after it succeeded (resumed).", "name", "event")
	m.calls = c.desc("cooldown_calls_total", "Calls that met a key that was held, by what became of them.", "name", "result")
	m.evicted = c.desc("cooldown_evicted_holds_total", "Holds that were forgotten to make room.", "name")
	m.keys = c.desc("cooldown_keys", "Keys that are held, or on their way back.", "name")
	m.waiting = c.desc("cooldown_waiting", "Calls that wait now.", "name")
}

func (m *cooldownMetrics) collect(ch chan<- prometheus.Metric, name string, c *cooldown.Cooldown) (panics uint64) {
	s := c.Stats()
	counter(ch, m.holds, s.Holds, name, "held")
	counter(ch, m.holds, s.Resumed, name, "resumed")
	counter(ch, m.calls, s.Waited, name, "waited")
	counter(ch, m.calls, s.Rejected, name, "rejected")
	counter(ch, m.calls, s.Canceled, name, "canceled")
	counter(ch, m.calls, s.Overdue, name, "overdue")
	counter(ch, m.evicted, s.Evicted, name)
	gauge(ch, m.keys, float64(s.Keys), name)
	gauge(ch, m.waiting, float64(s.Waiting), name)
	return s.HookPanics
}
