package batch

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
)

var _ core.Reporter = (*Batcher[int, int])(nil)

// Figures returns the [Stats], for package metrics.
func (b *Batcher[T, R]) Figures() (figures []core.Figure, hookPanics uint64) {
	s := b.Stats()
	figure := func(name, help string, n float64) {
		figures = append(figures, core.Figure{Name: name, Help: help, N: n})
	}
	labeled := func(name, help, label, value string, n uint64) {
		figures = append(figures, core.Figure{Name: name, Help: help, Label: label, Value: value, N: float64(n)})
	}
	const calls, added, ended = "Calls of Send, by result.", "Records added, by result.", "Records by outcome; retried ones are counted again."
	labeled("calls_total", calls, "result", "answered", s.Calls-s.CallsFailed)
	labeled("calls_total", calls, "result", "failed", s.CallsFailed)
	labeled("added_total", added, "result", "grouped", s.Added-s.Replaced)
	labeled("added_total", added, "result", "replaced", s.Replaced)
	labeled("added_total", added, "result", "exempt", s.Direct)
	labeled("added_total", added, "result", "rejected", s.Rejected)
	labeled("records_total", ended, "outcome", "sent", s.Sent)
	labeled("records_total", ended, "outcome", "retried", s.Retried)
	labeled("records_total", ended, "outcome", "failed", s.Failed)
	figure("splits_total", "Calls that were halved after a permanent error or the ends of their processes.", float64(s.Splits))
	figure("abandoned_calls_total", "Calls whose Send did not return in time.", float64(s.Abandoned))
	figure("redelivered_total", "Batches that were sent again because their lease had expired.", float64(s.Redelivered))
	figure("leases_lost_total", "Batches that were lost to another process or with the state of the store.", float64(s.LeasesLost))
	figure("unused_permits_total", "Permits with which there was nothing to send.", float64(s.Unused))
	figure("store_errors_total", "Operations that the store did not execute.", float64(s.StoreErrors))
	figure("in_flight", "Calls in flight.", float64(s.InFlight))
	figure("waiting", "Calls that wait for the result of their record.", float64(s.Waiting))
	figure("records", "Records in the store that are not done, over all processes.", float64(s.Records))
	return figures, s.HookPanics
}

// ObserveSteps calls f when records have failed, when a batch is sent again because its lease had
// expired, at each failure of the store or the Pacer, and when that has recovered, for package logs;
// with calls also for each call.
func (b *Batcher[T, R]) ObserveSteps(calls bool, f func(ctx context.Context, step core.Step)) (cancel func()) {
	step := func(text string, call, warn bool, attrs func(Info) []slog.Attr) func(context.Context, Info) {
		return func(ctx context.Context, info Info) {
			f(ctx, core.Step{Text: text, Call: call, Warn: warn, Key: info.Option, Attrs: attrs(info)})
		}
	}
	batch := func(info Info) []slog.Attr {
		return []slog.Attr{slog.String("batch", info.Key), slog.Int("records", info.Records)}
	}
	failure := func(info Info) []slog.Attr { return append(batch(info), slog.Any("err", info.Err)) }
	hooks := Hooks{
		Failed:      step("records failed", false, true, failure),
		Redelivered: step("batch is sent again: its lease had expired", false, true, batch),
		StoreFailed: func(ctx context.Context, info Info) {
			f(ctx, core.Step{Text: "store failed", Warn: true, Outage: true, Attrs: []slog.Attr{slog.Any("err", info.Err)}})
		},
		StoreRecovered: func(ctx context.Context, _ Info) {
			f(ctx, core.Step{Text: "store has recovered", Outage: true})
		},
	}
	if calls {
		hooks.Called = step("call ended", true, false, func(info Info) []slog.Attr {
			return append(failure(info), slog.Duration("took", info.Took))
		})
	}
	return b.Observe(hooks)
}
