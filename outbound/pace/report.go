package pace

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/internal/registry"
)

// figures returns the [Stats] and the rates in force, for package metrics.
func (p *Pacer) figures() (figures registry.Figures) {
	s := p.Stats()
	figure := func(name, help string, n float64) {
		figures.Add(name, help, n)
	}
	labeled := func(name, help, label, value string, n float64) {
		figures.Add(name, help, n, label, value)
	}
	const calls, permits, refreshes = "Calls, by whether they got a permit.", "Permits given up, by reason.", "Readings of the rates, by result."
	labeled("calls_total", calls, "result", "permitted", float64(s.Permits))
	labeled("calls_total", calls, "result", "rejected", float64(s.Rejected))
	figure("waits_total", "Calls that waited for their permit.", float64(s.Waited))
	labeled("unused_permits_total", permits, "reason", "stale", float64(s.Stale))
	labeled("unused_permits_total", permits, "reason", "state_lost", float64(s.Lost))
	figure("store_errors_total", "Reservations that the store could not decide.", float64(s.StoreErrors))
	labeled("refreshes_total", refreshes, "result", "read", float64(s.Refreshed))
	labeled("refreshes_total", refreshes, "result", "failed", float64(s.RefreshFailed))
	figure("waiting", "Calls that wait for their turn.", float64(s.Waiting))
	figure("reserved", "Permits of calls that have their turn, and wait for their slot.", float64(s.Reserved))
	figure("interval_seconds", "Time from one permit to the next at the lowest rate.", p.setting().interval.Seconds())
	return figures
}

// events calls f when the rates were read or could not be read, at each failure of the store,
// and when the store has recovered, for package logs; with calls also for each call that waited or was
// rejected, and each permit that was stale.
func (p *Pacer) events(calls bool, f func(ctx context.Context, step registry.Event)) (cancel func()) {
	step := func(text string, call bool, attrs func(Info) []slog.Attr) func(context.Context, Info) {
		return func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: text, Call: call, Key: info.Key, Attrs: attrs(info)})
		}
	}
	failure := func(info Info) []slog.Attr { return []slog.Attr{slog.Any("err", info.Err)} }
	hooks := Hooks{
		Refreshed:     step("rates were read from the vendor", false, func(info Info) []slog.Attr { return []slog.Attr{slog.Any("rates", info.Rates)} }),
		RefreshFailed: step("rates could not be read from the vendor", false, failure),
		StoreFailed: func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "store failed", Warn: true, Outage: true, Key: info.Key, Attrs: failure(info)})
		},
		StoreRecovered: func(ctx context.Context, _ Info) {
			f(ctx, registry.Event{Text: "store has recovered", Outage: true})
		},
	}
	if calls {
		hooks.Waited = step("call waited for its permit", true, func(info Info) []slog.Attr { return []slog.Attr{slog.Duration("waited", info.Waited)} })
		hooks.Stale = step("permit was stale", true, func(info Info) []slog.Attr { return []slog.Attr{slog.Duration("late", info.Late)} })
		hooks.Rejected = step("call rejected", true, func(info Info) []slog.Attr {
			return []slog.Attr{slog.Duration("waited", info.Waited), slog.Any("err", info.Err)}
		})
	}
	return p.Observe(hooks)
}
