package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
)

// refreshEvery is the time between two readings of the queues for figures.
const refreshEvery = time.Second

// Stats are the counters of a Runner in this process, and its present state.
type Stats struct {
	Enqueued  uint64 // jobs, those of Feed included
	Skipped   uint64 // jobs whose ID was in use
	Succeeded uint64 // attempts that succeeded
	Limited   uint64 // attempts that do not count
	Retried   uint64 // attempts that failed, after which the job runs again
	Failed    uint64 // jobs that have failed

	Active int // handlers that run
}

// Stats returns the counts so far, and the present state.
func (r *Runner) Stats() Stats {
	ended := func(e groups.End) uint64 { return r.ends[e].Load() }
	return Stats{
		Enqueued: r.enqueued.Load(), Skipped: r.skipped.Load(), Succeeded: ended(groups.Succeeded), Limited: ended(groups.Limited),
		Retried: ended(groups.Retried), Failed: ended(groups.Failed), Active: int(r.active.Load()),
	}
}

// figures returns the counts of this process, and those of its queues as Run last read them, which it does every second.
func (r *Runner) figures() (f registry.Figures) {
	s := r.Stats()
	f.Counts("attempts_total", "Attempts that have ended in this process, by result; limited ones do not count for the job.", "result",
		"succeeded", s.Succeeded, "limited", s.Limited, "retried", s.Retried, "failed", s.Failed)
	f.Count("enqueued_total", "Jobs that this process has enqueued.", s.Enqueued)
	f.Count("skipped_total", "Jobs that were not enqueued because their ID was in use.", s.Skipped)
	f.Add("running", "Handlers that run in this process.", float64(s.Active))
	names := r.names()
	counts, _ := r.seen.Load().([]groups.Counts)
	for i, c := range counts {
		of := func(name, help string, n int) { f.Add(name, help, float64(n), "queue", names[i]) }
		of("pending", "Jobs that are due, in all processes.", c.Pending)
		of("scheduled", "Jobs that wait for their time, in all processes.", c.Scheduled)
		of("active", "Jobs whose handler runs, in all processes.", c.Active)
		of("kept_failed", "Jobs that have failed, and are kept.", c.Failed)
		paused := 0
		if c.Paused {
			paused = 1
		}
		of("paused", "1 if the queue is paused.", paused)
	}
	return f
}

// watch reads the queues for figures until ctx ends.
func (r *Runner) watch(ctx context.Context) {
	for ctx.Err() == nil {
		counts, err := r.queue.Inspect(ctx, r.names()...)
		if r.up.EngineIs(ctx, err, slog.String("queue", "")); err == nil {
			r.seen.Store(counts)
		}
		groups.Sleep(ctx, refreshEvery, nil)
	}
}
