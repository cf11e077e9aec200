package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

const (
	shownFailed   = 20    // failed jobs of a queue that the page lists
	controlledMax = 1_000 // failed jobs that one control retries or deletes
)

// rows returns a row for each queue.
func (r *Runner) rows(ctx context.Context) ([]registry.Row, error) {
	snap, err := r.Snapshot(ctx)
	rows := make([]registry.Row, 0, len(snap.Queues))
	for i := range snap.Queues {
		q := &snap.Queues[i]
		failed, listErr := r.failed(ctx, q)
		err = errors.Join(err, listErr)
		row := registry.Row{Key: q.Queue, Verbs: []string{"pause"}}
		state := "idle"
		switch {
		case q.Paused:
			state = "paused"
		case q.HeldUntil.After(time.Now()):
			state = "held"
		case q.Active > 0:
			state = "running"
		}
		if state == "paused" || state == "held" {
			row.Alarm, row.Verbs = registry.Notice, []string{"resume"}
		}
		if q.Failed+q.Stuck > 0 {
			row.Alarm = registry.Failing
		}
		if q.Failed > 0 {
			row.Verbs = append(row.Verbs, "retry", "delete_failed")
		}
		row.Cells = []registry.Cell{
			{Name: "state", Value: state},
			{Name: "pending", Value: q.Pending},
			{Name: "latency", Value: q.Latency},
			{Name: "scheduled", Value: q.Scheduled},
			{Name: "running", Value: q.Active},
			{Name: "held_until", Value: q.HeldUntil},
			{Name: "failed", Value: q.Failed},
			{Name: "failed_jobs", Value: failed, Secret: true},
			{Name: "stuck", Value: q.Stuck},
			{Name: "processed", Value: q.Processed},
		}
		rows = append(rows, row)
	}
	return rows, err
}

// failed returns a line for each of the first failed jobs of a queue.
func (r *Runner) failed(ctx context.Context, q *QueueInfo) (lines []string, err error) {
	if q.Failed == 0 {
		return nil, nil
	}
	for info, err := range r.Engine().List(ctx, q.Queue, Failed) {
		if err != nil || len(lines) == shownFailed {
			return lines, err
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", info.Kind, info.ID, info.LastError))
	}
	return lines, nil
}

// control does a verb of the row of a queue.
func (r *Runner) control(ctx context.Context, verb, queue string) (n int, err error) {
	switch e := r.Engine(); verb {
	case "pause":
		return 1, e.Pause(ctx, queue)
	case "resume":
		return 1, e.Resume(ctx, queue)
	case "retry":
		return eachFailed(ctx, e, queue, e.RunNow)
	default:
		return eachFailed(ctx, e, queue, e.Delete)
	}
}

// eachFailed calls f for the failed jobs of a queue, at most 1,000, and returns the number of those that it changed. Jobs that
// another client has changed are skipped.
func eachFailed(ctx context.Context, e Engine, queue string, f func(ctx context.Context, queue, id string) error) (n int, err error) {
	var ids []string
	for info, err := range e.List(ctx, queue, Failed) {
		if err != nil {
			return 0, err
		}
		if ids = append(ids, info.ID); len(ids) == controlledMax {
			break
		}
	}
	for _, id := range ids {
		switch err := f(ctx, queue, id); {
		case err == nil:
			n++
		case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrState):
			return n, err
		}
	}
	return n, nil
}
