package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/bulkhead"
)

type bulkheadMetrics struct {
	calls, changes, lost, store, inFlight, limit, waiting, keys *prometheus.Desc

	wait *prometheus.HistogramVec
}

func bulkheadKinds(c *Collector, _ Config) []kind {
	m := &bulkheadMetrics{}
	m.calls = c.desc("bulkhead_calls_total", "Calls that were admitted or not, by result.", "name", "result")
	m.changes = c.desc("bulkhead_limit_changes_total", "Times that the results of calls changed the limit of a key, by direction.", "name", "direction")
	m.lost = c.desc("bulkhead_lost_total", "Calls in flight that lost their permits in the store.", "name")
	m.store = c.desc("bulkhead_store_errors_total", "Calls that the store of the permits could not decide.", "name")
	m.inFlight = c.desc("bulkhead_in_flight", "Permits that calls hold, of all keys.", "name")
	m.limit = c.desc("bulkhead_limit", "Permits that the known keys may hold together.", "name")
	m.waiting = c.desc("bulkhead_waiting", "Calls that wait.", "name")
	m.keys = c.desc("bulkhead_keys", "Keys that are kept, apart from the empty one.", "name")
	m.wait = c.histogram("bulkhead_wait_seconds", "Duration of the waits of calls that were then admitted.", "name")
	return []kind{attached(kindOf("bulkhead", m.collect), m.attach, m.wait)}
}

func (m *bulkheadMetrics) attach(name string, b *bulkhead.Bulkhead) (detach func()) {
	wait := m.wait.WithLabelValues(name)
	cancel := b.Observe(bulkhead.Hooks{
		Waited: func(_ context.Context, info bulkhead.Info) { wait.Observe(info.Waited.Seconds()) },
	})
	return func() {
		cancel()
		m.wait.DeleteLabelValues(name)
	}
}

func (m *bulkheadMetrics) collect(ch chan<- prometheus.Metric, name string, b *bulkhead.Bulkhead) (panics uint64) {
	s := b.Stats()
	counter(ch, m.calls, s.Admitted, name, "admitted")
	counter(ch, m.calls, s.Rejected, name, "rejected")
	counter(ch, m.calls, s.Canceled, name, "canceled")
	counter(ch, m.changes, s.Lowered, name, "lowered")
	counter(ch, m.changes, s.Raised, name, "raised")
	counter(ch, m.lost, s.Lost, name)
	counter(ch, m.store, s.StoreErrors, name)
	gauge(ch, m.inFlight, float64(s.InFlight), name)
	gauge(ch, m.limit, float64(s.Limit), name)
	gauge(ch, m.waiting, float64(s.Waiting), name)
	gauge(ch, m.keys, float64(s.Keys), name)
	return s.HookPanics
}
