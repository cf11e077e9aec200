package ratelimit

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

func (l *Limiter) figures() (f registry.Figures) {
	all := l.current.Load()
	const requests = "Operations by result, and by limit if it has a name; " +
		"error: neither the store nor the process decided, whatever OnStoreError is."
	for _, name := range slices.Sorted(maps.Keys(all.views)) {
		tally := all.views[name].tally
		f.Count("requests_total", requests, tally.allowed.Load(), "limit", name, "result", "allowed")
		f.Count("requests_total", requests, tally.rejected.Load(), "limit", name, "result", "throttled")
	}
	s, unnamed := l.Stats(), l.unnamed()
	f.Counts("requests_total", requests, "result", "allowed", unnamed.Allowed, "throttled", unnamed.Rejected,
		"canceled", s.Canceled, "error", l.undecided.Load())
	f.Count("store_errors_total", "Operations that the store failed to decide.", s.StoreErrors)
	f.Add("waiters", "Calls that wait for permits.", float64(s.Waiting))
	add := func(set *setting, labels ...string) {
		f.Add("limit_permits", "Capacity of the limit for one key.", float64(set.plan.Capacity), labels...)
		f.Add("window_seconds", "Period of the limit; of joined limits, of the first.", set.plan.Rules[0].Spec.Period.Seconds(), labels...)
	}
	add(all.main)
	for _, name := range slices.Sorted(maps.Keys(all.named)) {
		add(all.named[name], "limit", name)
	}
	if s.Keys >= 0 {
		f.Add("partitions", "Keys held in memory.", float64(s.Keys))
		f.Warn("partition_evictions_total", "Keys evicted while part of their usage still counted.", s.Evicted,
			"keys evicted whose usage still counted: MaxKeys reached", "reason", "capacity")
	}
	f.Histogram("wait_seconds", "Duration of waits for permits, by result.", &l.waits[0], "result", "allowed")
	f.Histogram("wait_seconds", "Duration of waits for permits, by result.", &l.waits[1], "result", "canceled")
	return f
}

// decided counts a decision, unless counted says that TakeOne has done so, and emits its event. A cost of 0 and a failed store are no
// decision.
func (l *Limiter) decided(ctx context.Context, key string, cost int64, r *Result, waited time.Duration, counted bool) {
	if cost == 0 || r.Limit == 0 {
		return
	}
	switch {
	case counted:
	case r.Allowed:
		l.tally.allowed.Inc()
	default:
		l.tally.rejected.Inc()
	}
	switch remaining := slog.Int64("remaining", r.Remaining); {
	case !l.life.Calls():
	case r.Allowed:
		l.emitCall(ctx, key, cost, "permits granted", remaining, slog.Duration("waited", waited))
	default:
		l.emitCall(ctx, key, cost, "permits refused", slog.Int64("limit", r.Limit), remaining, slog.Duration("retry_after", r.RetryAfter))
	}
}

// emitCall emits the event of a single call.
func (l *Limiter) emitCall(ctx context.Context, key string, cost int64, text string, attrs ...slog.Attr) {
	if l.life.Calls() {
		e := registry.Event{Text: text, Call: true, Key: strings.Clone(key), Attrs: append(attrs, slog.Int64("cost", cost))}
		l.life.Emit(ctx, e)
	}
}

// emitOutage emits the event of a store that failed with err, or has recovered.
func (l *Limiter) emitOutage(ctx context.Context, key string, err error) {
	e := registry.Event{Text: "limit store recovered", Outage: true, Key: strings.Clone(key)}
	if err != nil {
		e.Text, e.Warn, e.Attrs = "limit store failed", true, []slog.Attr{slog.Any("err", err)}
	}
	if l.life.Listening() {
		l.life.Emit(ctx, e)
	}
}
