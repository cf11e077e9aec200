package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/ratelimit"
)

type limiterMetrics struct {
	wait    *prometheus.HistogramVec
	permits *prometheus.CounterVec // nil without Config.Permits
}

func limiterKinds(c *Collector, cfg Config) []kind {
	m := &limiterMetrics{wait: c.histogram("ratelimit_wait_seconds", "Duration of waits for permits, by result.", "name", "result")}
	vectors := []vector{m.wait}
	if cfg.Permits {
		m.permits = c.counterVec("ratelimit_permits_total", "Permits requested, by result.", "name", "result")
		vectors = append(vectors, m.permits)
	}
	return []kind{attached(kindOf("ratelimit", collectLimiter), m.attach, vectors...)}
}

func (m *limiterMetrics) attach(name string, l *ratelimit.Limiter) (cancel func()) {
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
	return l.Observe(hooks)
}

func collectLimiter(w *writer, l *ratelimit.Limiter) (panics uint64) {
	s := l.Stats()
	w.counters("ratelimit_requests_total", "Operations by result; error: neither the store nor the process decided, whatever OnStoreError did then.", "result", map[string]uint64{
		"allowed": s.Allowed, "throttled": s.Rejected, "canceled": s.Canceled, "error": s.StoreErrors - s.Local, // Local is part of StoreErrors
	})
	w.counter("ratelimit_store_errors_total", "Operations that the store failed to decide.", s.StoreErrors)
	w.gauge("ratelimit_waiters", "Calls that wait for permits.", float64(s.Waiting))
	if l.InUse() {
		limit := l.Limit()
		w.gauge("ratelimit_limit_permits", "Capacity of the limit for one key; no sample while every key has another limit, as by a tier.", float64(limit.Capacity()))
		w.gauge("ratelimit_window_seconds", "Period of that limit; of joined limits, of the first.", limit.Period.Seconds())
	}
	if s.Keys >= 0 {
		w.gauge("ratelimit_partitions", "Keys held in memory.", float64(s.Keys))
		w.counters("ratelimit_partition_evictions_total", "Keys evicted while part of their usage still counted.", "reason", map[string]uint64{"capacity": s.Evicted})
	}
	return s.HookPanics
}
