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
	const requests = "Operations by result, and by the limit if it has a name; " +
		"error: neither the store nor the process decided, whatever OnStoreError did then."
	var named Stats
	for _, name := range slices.Sorted(maps.Keys(all.views)) {
		tally := all.views[name].tally
		allowed, rejected := tally.allowed.Load(), tally.rejected.Load()
		f.Count("requests_total", requests, allowed, "limit", name, "result", "allowed")
		f.Count("requests_total", requests, rejected, "limit", name, "result", "throttled")
		named.Allowed, named.Rejected = named.Allowed+allowed, named.Rejected+rejected
	}
	s := l.Stats() // read last: it is not less than the named ones
	f.Counts("requests_total", requests, "result", "allowed", s.Allowed-named.Allowed, "throttled", s.Rejected-named.Rejected,
		"canceled", s.Canceled, "error", l.undecided.Load())
	f.Count("store_errors_total", "Operations that the store failed to decide.", s.StoreErrors)
	f.Add("waiters", "Calls that wait for permits.", float64(s.Waiting))
	add := func(set *setting, labels ...string) {
		f.Add("limit_permits", "Capacity of the limit for one key.", float64(set.capacity), labels...)
		f.Add("window_seconds", "Period of the limit; of joined limits, of the first.", set.specs[0].Period.Seconds(), labels...)
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

// emitDecision emits the event of a single call.
func (l *Limiter) emitDecision(ctx context.Context, key string, cost int64, r *Result, waited time.Duration) {
	if !l.life.Calls() {
		return
	}
	e := registry.Event{Text: "permits granted", Attrs: []slog.Attr{
		slog.Int64("remaining", r.Remaining), slog.Duration("waited", waited), slog.Int64("cost", cost),
	}}
	if !r.Allowed {
		e.Text, e.Attrs = "permits refused", []slog.Attr{
			slog.Int64("limit", r.Limit), slog.Int64("remaining", r.Remaining),
			slog.Duration("retry_after", r.RetryAfter), slog.Int64("cost", cost),
		}
	}
	l.emitCall(ctx, key, e)
}

// emitQueued emits the event of a wait that begins.
func (l *Limiter) emitQueued(ctx context.Context, key string, cost int64) {
	if l.life.Calls() {
		l.emitCall(ctx, key, registry.Event{Text: "waiting for permits", Attrs: []slog.Attr{slog.Int64("cost", cost)}})
	}
}

// emitCanceled emits the event of a wait that ended before its time.
func (l *Limiter) emitCanceled(ctx context.Context, key string, cost int64, waited time.Duration, err error) {
	if l.life.Calls() {
		l.emitCall(ctx, key, registry.Event{Text: "wait for permits canceled", Attrs: []slog.Attr{
			slog.Duration("waited", waited), slog.Any("err", err), slog.Int64("cost", cost),
		}})
	}
}

func (l *Limiter) emitCall(ctx context.Context, key string, e registry.Event) {
	e.Call, e.Key = true, strings.Clone(key)
	l.life.Emit(ctx, e)
}

// emitOutage emits the event of a store that failed with err, or has recovered.
func (l *Limiter) emitOutage(ctx context.Context, key string, err error) {
	switch {
	case !l.life.Listening():
	case err != nil:
		l.life.Emit(ctx, registry.Event{Text: "limit store failed", Warn: true, Outage: true, Key: strings.Clone(key),
			Attrs: []slog.Attr{slog.Any("err", err)}})
	default:
		l.life.Emit(ctx, registry.Event{Text: "limit store recovered", Outage: true, Key: strings.Clone(key)})
	}
}
