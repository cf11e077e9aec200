package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/timeout"
)

type timeoutMetrics struct{ calls, limit, abandoned *prometheus.Desc }

func timeoutKinds(c *Collector, _ Config) []kind {
	m := &timeoutMetrics{}
	m.calls = c.desc("timeout_calls_total", "Calls that ended, by result.", "name", "result")
	m.limit = c.desc("timeout_limit_seconds", "Time limit of a call; no sample without a limit.", "name")
	m.abandoned = c.desc("timeout_abandoned", "Calls that timed out and still run, although no caller waits for them.", "name")
	return []kind{kindOf("timeout", m.collect)}
}

func (m *timeoutMetrics) collect(ch chan<- prometheus.Metric, name string, t *timeout.Timeout) (panics uint64) {
	s := t.Stats()
	counter(ch, m.calls, s.Succeeded, name, "success")
	counter(ch, m.calls, s.Failed, name, "failure")
	counter(ch, m.calls, s.TimedOut, name, "timeout")
	counter(ch, m.calls, s.Canceled, name, "canceled")
	gauge(ch, m.abandoned, float64(s.Abandoned), name)
	if t.Limit() > 0 {
		gauge(ch, m.limit, t.Limit().Seconds(), name)
	}
	return s.HookPanics
}
