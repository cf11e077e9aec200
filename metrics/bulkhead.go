package metrics

import (
	"context"

	"github.com/gresil/gresil/core/bulkhead"
)

func bulkheadKinds(c *Collector, _ Config) []kind {
	waits := c.histogram("bulkhead_wait_seconds", "Duration of the waits of calls that were then admitted.", "name")
	attach := func(name string, b *bulkhead.Bulkhead) (cancel func()) {
		wait := waits.WithLabelValues(name)
		return b.Observe(bulkhead.Hooks{
			Waited: func(_ context.Context, info bulkhead.Info) { wait.Observe(info.Waited.Seconds()) },
		})
	}
	return []kind{attached(kindOf("bulkhead", collectBulkhead), attach, waits)}
}

func collectBulkhead(w *writer, b *bulkhead.Bulkhead) (panics uint64) {
	s := b.Stats()
	w.counters("bulkhead_calls_total", "Calls that were admitted or not, by result.", "result", map[string]uint64{
		"admitted": s.Admitted, "rejected": s.Rejected, "canceled": s.Canceled,
	})
	w.counters("bulkhead_limit_changes_total", "Times that the results of calls changed the limit of a key, by direction.", "direction", map[string]uint64{
		"lowered": s.Lowered, "raised": s.Raised,
	})
	w.counter("bulkhead_lost_total", "Calls in flight that lost their permits in the store.", s.Lost)
	w.counter("bulkhead_store_errors_total", "Calls that the store of the permits could not decide.", s.StoreErrors)
	w.gauge("bulkhead_in_flight", "Permits that calls hold, of all keys.", float64(s.InFlight))
	w.gauge("bulkhead_limit", "Permits that the known keys may hold together.", float64(s.Limit))
	w.gauge("bulkhead_waiting", "Calls that wait.", float64(s.Waiting))
	w.gauge("bulkhead_keys", "Keys that are kept, apart from the empty one.", float64(s.Keys))
	return s.HookPanics
}
