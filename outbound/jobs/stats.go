package jobs

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
)

// Stats are the counters of a [Runner], for its process, and its present state.
type Stats struct {
	Enqueued   uint64 // jobs, also those of Feed
	Duplicates uint64 // jobs whose ID was in use
	Succeeded  uint64 // attempts
	Limited    uint64 // attempts that do not count: limited, ended with RunAt, or stopped with the process
	Retried    uint64 // attempts that failed, and are repeated
	Failed     uint64 // attempts that failed, after which the job is kept as failed
	Holds      uint64 // times that a queue was held
	HookPanics uint64

	Active  int // handlers that run
	Feeding int // calls of Feed
}

type counters struct {
	enqueued, duplicates, succeeded, limited, retried, failed, holds atomic.Uint64
	active, feeding                                                  atomic.Int64
}

// Stats returns the counts so far. They are read one after the other.
func (r *Runner) Stats() Stats {
	c := &r.counters
	return Stats{
		Enqueued: c.enqueued.Load(), Duplicates: c.duplicates.Load(), Succeeded: c.succeeded.Load(), Limited: c.limited.Load(),
		Retried: c.retried.Load(), Failed: c.failed.Load(), Holds: c.holds.Load(), HookPanics: r.life.Panics.Count(),
		Active: int(c.active.Load()), Feeding: int(c.feeding.Load()),
	}
}

// A Snapshot is the state of a [Runner] and of its queues, for a page.
type Snapshot struct {
	Name   string
	Stats  Stats
	Queues []QueueInfo // of Config.Queues, over all processes, by name
}

// Snapshot reads the state of the queues from the engine. The error is that of the engine; the
// Snapshot has the queues that could be read.
func (r *Runner) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{Name: r.Name()}
	for _, name := range slices.Sorted(maps.Keys(r.life.Load().Settings)) {
		info, err := r.engine.Inspect(ctx, name)
		if err != nil {
			s.Stats = r.Stats()
			return s, err
		}
		s.Queues = append(s.Queues, info)
	}
	s.Stats = r.Stats()
	return s, nil
}
