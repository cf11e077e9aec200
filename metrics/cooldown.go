package metrics

import "github.com/gresil/gresil/core/cooldown"

func cooldownKinds(*Collector, Config) []kind {
	k := kindOf("cooldown", collectCooldown)
	k.part = true // of a client limiter
	return []kind{k}
}

func collectCooldown(w *writer, c *cooldown.Cooldown) (panics uint64) {
	s := c.Stats()
	w.counters("cooldown_holds_total", "Holds of a key (held), and first successful calls after one (resumed).", "event", map[string]uint64{
		"held": s.Holds, "resumed": s.Resumed,
	})
	w.counters("cooldown_calls_total", "Calls to a held key that had to wait or were rejected, by result; each call has one.", "result", map[string]uint64{
		"waited": s.Waited, "rejected": s.Rejected, "canceled": s.Canceled,
	})
	w.counter("cooldown_overdue_probes_total", "Calls after a hold that took longer than ProbeTimeout and lost their slot; those that had waited are among the calls too.", s.Overdue)
	w.counter("cooldown_evicted_holds_total", "Holds evicted: MaxKeys was reached.", s.Evicted)
	w.counter("cooldown_store_failures_total", "Times that the store of the holds became unavailable.", s.StoreFailures)
	w.gauge("cooldown_keys", "Keys that are held, or in the ramp after a hold.", float64(s.Keys))
	w.gauge("cooldown_waiting", "Calls that wait.", float64(s.Waiting))
	return s.HookPanics
}
