package jobs

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
)

const (
	shownFailed    = 20   // failed jobs of a queue that a page lists
	controlledMost = 1000 // failed jobs that a page retries or deletes at once
)

// Pause stops a queue in all processes, until Resume. Active jobs continue, and further jobs can be enqueued.
func (r *Runner) Pause(ctx context.Context, queue string) error {
	return r.queue.Control(ctx, queue, groups.Pause, "")
}

// Resume ends a pause.
func (r *Runner) Resume(ctx context.Context, queue string) error {
	return r.queue.Control(ctx, queue, groups.Resume, "")
}

// RunNow makes a scheduled or failed job pending, with all its attempts. The error is [ErrNotFound] if there is no such
// job.
func (r *Runner) RunNow(ctx context.Context, queue, id string) error {
	return r.queue.Control(ctx, queue, groups.Retry, id)
}

// Delete removes a job that is not active. The errors are those of RunNow.
func (r *Runner) Delete(ctx context.Context, queue, id string) error {
	return r.queue.Control(ctx, queue, groups.Delete, id)
}

// Jobs iterates over the jobs of a queue in a state; with the state "", over all. Jobs that change their state
// meanwhile may be left out, or be listed twice. An error ends the iteration.
func (r *Runner) Jobs(ctx context.Context, queue string, state State) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for _, s := range []State{Pending, Scheduled, Active, Failed, Done} {
			if state != "" && state != s {
				continue
			}
			for e, err := range r.queue.List(ctx, queue, string(s)) {
				if !yield(Info{Job(e.Job), s, e.Due, e.LastError}, err) || err != nil {
					return
				}
			}
		}
	}
}

// Queue returns the counts of a queue.
func (r *Runner) Queue(ctx context.Context, name string) (QueueInfo, error) {
	all, err := r.queue.Inspect(ctx, name)
	if err != nil {
		return QueueInfo{}, err
	}
	c := all[0]
	return QueueInfo{c.Pending, c.Scheduled, c.Active, c.Failed, c.Done, c.Oldest, c.Paused}, nil
}

// Cancel deletes the jobs of a campaign that are not active, and returns their number. First cancel the context of its
// Feed.
func (r *Runner) Cancel(ctx context.Context, queue, campaign string) (n int, err error) {
	for last := -1; last != n; { // a list can leave out jobs that change their state meanwhile
		last = n
		for _, s := range []State{Scheduled, Pending, Failed} {
			deleted, err := r.each(ctx, queue, s, groups.Delete, func(j Info) bool { return j.Campaign == campaign })
			if n += deleted; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// each applies a verb to those jobs of a queue that are in a state and for which some returns true, and returns their
// number.
func (r *Runner) each(ctx context.Context, queue string, s State, v groups.Verb, some func(Info) bool) (n int, err error) {
	var ids []string
	for j, err := range r.Jobs(ctx, queue, s) {
		if err != nil {
			return 0, err
		}
		if some(j) {
			ids = append(ids, j.ID)
		}
	}
	for _, id := range ids {
		if err := r.queue.Control(ctx, queue, v, id); err == nil {
			n++
		} else if !errors.Is(err, ErrNotFound) {
			return n, err
		}
	}
	return n, nil
}

func (r *Runner) names() []string { return slices.Sorted(maps.Keys(r.life.Load().Settings)) }

// rows returns a row for each queue, for a page.
func (r *Runner) rows(ctx context.Context) (rows []registry.Row, err error) {
	names := r.names()
	all, err := r.queue.Inspect(ctx, names...)
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		var failures []string
		if c.Failed > 0 {
			for j, listErr := range r.Jobs(ctx, names[i], Failed) {
				if err = errors.Join(err, listErr); err != nil || len(failures) == shownFailed {
					break
				}
				failures = append(failures, j.ID+": "+j.LastError)
			}
		}
		row := registry.Row{Key: names[i], Verbs: []string{"pause"}, Cells: []registry.Cell{
			{Name: "pending", Value: c.Pending},
			{Name: "active", Value: c.Active},
			{Name: "scheduled", Value: c.Scheduled},
			{Name: "failed", Value: c.Failed},
			{Name: "failed_jobs", Value: failures, Secret: true},
			{Name: "oldest", Value: c.Oldest},
			{Name: "paused", Value: c.Paused},
		}}
		if c.Paused {
			row.Alarm, row.Verbs[0] = registry.Notice, "resume"
		}
		if c.Failed > 0 {
			row.Alarm, row.Verbs = registry.Failing, append(row.Verbs, "retry", "delete_failed")
		}
		rows = append(rows, row)
	}
	return rows, err
}

// control applies a verb to a row. retry and delete_failed apply to its failed jobs, up to 1,000 of them.
func (r *Runner) control(ctx context.Context, verb, queue string) (n int, err error) {
	v, ok := map[string]groups.Verb{"retry": groups.Retry, "delete_failed": groups.Delete}[verb]
	if !ok {
		return 1, r.queue.Control(ctx, queue, groups.Verb(verb), "")
	}
	return r.each(ctx, queue, Failed, v, func(Info) bool { n++; return n <= controlledMost })
}
