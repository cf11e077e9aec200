package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/ratelimit"
)

type limiterMetrics struct {
	requests, waiters, limit, window, partitions, evictions, storeErrors *prometheus.Desc
	wait                                                                 *prometheus.HistogramVec
	permits                                                              *prometheus.CounterVec // nil without Config.Permits
}

func limiterKinds(c *Collector, cfg Config) []kind {
	m := &limiterMetrics{}
	m.requests = c.desc("ratelimit_requests_total", "Operations by result; error: neither the store nor the process decided, whatever OnStoreError did then.", "name", "result")
	m.waiters = c.desc("ratelimit_waiters", "Calls that wait for permits.", "name")
	m.limit = c.desc("ratelimit_limit_permits", "Capacity of the limit for one key; no sample while every key has another limit, as by a tier.", "name")
	m.window = c.desc("ratelimit_window_seconds", "Period of that limit; of joined limits, of the first.", "name")
	m.partitions = c.desc("ratelimit_partitions", "Keys held in memory.", "name")
	m.evictions = c.desc("ratelimit_partition_evictions_total", "Keys evicted while part of their usage still counted.", "name", "reason")
	m.storeErrors = c.desc("ratelimit_store_errors_total", "Operations that the store failed to decide.", "name")
	m.wait = c.histogram("ratelimit_wait_seconds", "Duration of waits for permits, by result.", "name", "result")
	vectors := []prometheus.Collector{m.wait}
	if cfg.Permits {
		m.permits = prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: c.namespace, Name: "ratelimit_permits_total", Help: "Permits requested, by result.",
		}, []string{"name", "result"})
		vectors = append(vectors, m.permits)
	}
	return []kind{attached(kindOf("ratelimit", m.collect), m.attach, vectors...)}
}

func (m *limiterMetrics) attach(name string, l *ratelimit.Limiter) (detach func()) {
	allowed, canceled := m.wait.WithLabelValues(name, "allowed"), m.wait.WithLabelValues(name, "canceled")
	hooks := ratelimit.Hooks{
		Waited:   func(_ context.Context, info ratelimit.Info) { allowed.Observe(info.Waited.Seconds()) },
		Canceled: func(_ context.Context, info ratelimit.Info) { canceled.Observe(info.Waited.Seconds()) },
	}
	if m.permits != nil {
		granted, refused := m.permits.WithLabelValues(name, "allowed"), m.permits.WithLabelValues(name, "throttled")
		hooks.Allowed = func(_ context.Context, info ratelimit.Info) { granted.Add(float64(info.Result.Granted)) }
		hooks.Rejected = func(_ context.Context, info ratelimit.Info) { refused.Add(float64(info.Cost)) }
	}
	cancel := l.Observe(hooks)
	return func() {
		cancel()
		if m.permits != nil {
			m.permits.DeletePartialMatch(prometheus.Labels{"name": name})
		}
		m.wait.DeletePartialMatch(prometheus.Labels{"name": name})
	}
}

func (m *limiterMetrics) collect(ch chan<- prometheus.Metric, name string, l *ratelimit.Limiter) (panics uint64) {
	s := l.Stats()
	counter(ch, m.requests, s.Allowed, name, "allowed")
	counter(ch, m.requests, s.Rejected, name, "throttled")
	counter(ch, m.requests, s.Canceled, name, "canceled")
	counter(ch, m.requests, s.StoreErrors-s.Local, name, "error") // Local is part of StoreErrors
	counter(ch, m.storeErrors, s.StoreErrors, name)
	gauge(ch, m.waiters, float64(s.Waiting), name)
	if l.InUse() {
		limit := l.Limit()
		gauge(ch, m.limit, float64(limit.Capacity()), name)
		gauge(ch, m.window, limit.Period.Seconds(), name)
	}
	if s.Keys >= 0 {
		gauge(ch, m.partitions, float64(s.Keys), name)
		counter(ch, m.evictions, s.Evicted, name, "capacity")
	}
	return s.HookPanics
}
