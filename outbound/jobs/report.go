package jobs

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/gresil/gresil/internal/registry"
)

// figures returns the [Stats] of this process, and the counts of its queues as Run has last read them
// from the engine, at most 5 seconds ago, for package metrics.
func (r *Runner) figures() (figures registry.Figures) {
	s := r.Stats()
	figure := func(name, help string, n float64) {
		figures.Add(name, help, n)
	}
	const attempts = "Attempts that have ended in this process, by result; limited ones do not count for the job."
	for _, c := range []struct {
		result string
		n      uint64
	}{{"succeeded", s.Succeeded}, {"limited", s.Limited}, {"retried", s.Retried}, {"failed", s.Failed}} {
		figures.Add("attempts_total", attempts, float64(c.n), "result", c.result)
	}
	figure("enqueued_total", "Jobs that this process has enqueued.", float64(s.Enqueued))
	figure("duplicates_total", "Jobs that were not enqueued because their ID was in use.", float64(s.Duplicates))
	figure("holds_total", "Times that this process has held a queue.", float64(s.Holds))
	figure("running", "Handlers that run in this process.", float64(s.Active))
	figure("feeding", "Campaigns that this process feeds.", float64(s.Feeding))
	for _, q := range r.lastSeen() {
		labeled := func(name, help string, n int) {
			figures.Add(name, help, float64(n), "queue", q.Queue)
		}
		labeled("pending", "Jobs that are due, in all processes.", q.Pending)
		labeled("scheduled", "Jobs that wait for their time, in all processes.", q.Scheduled)
		labeled("active", "Jobs whose handler runs, in all processes.", q.Active)
		labeled("kept_failed", "Jobs that are kept as failed.", q.Failed)
		labeled("stuck", "Jobs that are active although no process has them.", q.Stuck)
		labeled("paused", "1 if the queue is paused.", one(q.Paused))
		labeled("held", "1 if the queue is held until a time.", one(!q.HeldUntil.IsZero()))
	}
	return figures
}

// lastSeen returns the latest reading of the queues, or empty ones.
func (r *Runner) lastSeen() (queues []QueueInfo) {
	if seen := r.seen.Load(); seen != nil {
		return *seen
	}
	for _, name := range slices.Sorted(maps.Keys(r.life.Load().Settings)) {
		queues = append(queues, QueueInfo{Queue: name})
	}
	return queues
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// events calls f when a job is kept as failed, when a queue is held, when the engine fails, and
// when it works again, for package logs; with calls also for each attempt that ended in another way.
func (r *Runner) events(calls bool, f func(ctx context.Context, step registry.Event)) (cancel func()) {
	step := func(text string, call, warn bool, attrs func(Event) []slog.Attr) func(context.Context, Event) {
		return func(ctx context.Context, event Event) {
			all := append([]slog.Attr{slog.String("queue", event.Queue)}, attrs(event)...)
			f(ctx, registry.Event{Text: text, Call: call, Warn: warn, Key: event.Job.ID, Attrs: all})
		}
	}
	failure := func(event Event) []slog.Attr { return []slog.Attr{slog.Any("err", event.Err)} }
	again := func(event Event) []slog.Attr {
		return []slog.Attr{slog.Time("at", event.At), slog.Any("err", event.Err)}
	}
	hooks := Hooks{
		Failed: step("job failed", false, true, failure),
		Held:   step("queue is held", false, false, again),
		EngineFailed: func(ctx context.Context, event Event) {
			attrs := append([]slog.Attr{slog.String("queue", event.Queue)}, failure(event)...)
			f(ctx, registry.Event{Text: "engine failed", Warn: true, Outage: true, Key: event.Job.ID, Attrs: attrs})
		},
		engineWorks: func(ctx context.Context, _ Event) {
			f(ctx, registry.Event{Text: "engine has recovered", Outage: true})
		},
	}
	if calls {
		hooks.Succeeded = step("job succeeded", true, false, func(event Event) []slog.Attr { return []slog.Attr{slog.Duration("took", event.Took)} })
		hooks.Limited = step("job runs again later", true, false, again)
		hooks.Retried = step("attempt failed", true, false, again)
	}
	return r.Observe(hooks)
}
