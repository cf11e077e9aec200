package dash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/jobs"
)

const (
	shownFailed   = 20    // failed jobs of a queue that the page lists
	controlledMax = 1_000 // failed jobs that one control retries or deletes
)

// A runner is a jobs.Runner.
type runner interface {
	Snapshot(ctx context.Context) (jobs.Snapshot, error)
	Engine() jobs.Engine
}

// runners shows the queues of outbound/jobs: a row for each.
func runners() *section {
	return &section{
		kind: "jobs", title: "Job queues",
		columns: []column{
			{"queue", "Queue"},
			{"state", "State"},
			{"held_until", "Held until"},
			{"pending", "Pending"},
			{"scheduled", "Scheduled"},
			{"running", "Running"},
			{"failed", "Failed"},
			{"failed_jobs", ""},
			{"done", "Done"},
			{"soon", "Due soon"},
			{"stuck", "Stuck"},
			{"processed", "Processed"},
			{"latency_s", "Latency"},
			{"paused", ""},
		},
		labels: map[string]string{"delete": "Delete failed"},
		reads: func(e registry.Entry) reader {
			r, ok := as[runner](e.Instance)
			if !ok {
				return nil
			}
			return func(ctx context.Context, v view) ([]row, error) {
				snap, err := r.Snapshot(ctx)
				rows := make([]row, len(snap.Queues))
				for i := range snap.Queues {
					failed, listErr := failedJobs(ctx, r, &snap.Queues[i])
					rows[i] = queue(&snap.Queues[i], failed, v)
					err = errors.Join(err, listErr)
				}
				return rows, err
			}
		},
		plans: func(instance any) planner {
			r, ok := as[runner](instance)
			if !ok {
				return nil
			}
			return func(ctx context.Context, verb, option string) (plan, error) { return queuePlan(ctx, r, verb, option) }
		},
	}
}

// failedJobs returns the first failed jobs of a queue.
func failedJobs(ctx context.Context, r runner, q *jobs.QueueInfo) (failed []jobs.Info, err error) {
	if q.Failed == 0 {
		return nil, nil
	}
	for info, err := range r.Engine().List(ctx, q.Queue, jobs.Failed) {
		if err != nil || len(failed) == shownFailed {
			return failed, err
		}
		failed = append(failed, info)
	}
	return failed, nil
}

// A failedJob is one in JSON. Its payload is not shown.
type failedJob struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	Campaign string    `json:"campaign"`
	Attempt  int       `json:"attempt"`
	Error    string    `json:"error"`
	FailedAt time.Time `json:"failed_at"`
}

func queue(q *jobs.QueueInfo, failed []jobs.Info, v view) row {
	r := row{option: q.Queue, volume: float64(q.Pending + q.Active)}
	switch {
	case q.Failed > 0 || q.Stuck > 0:
		r.rank = 2
	case q.Paused || q.HeldUntil.After(v.now):
		r.rank = 1
	}
	values, lines := []failedJob{}, []string(nil)
	for i := range failed {
		j := &failed[i]
		reason := failure(j.LastError, v.keys)
		known, _ := reason.value.(string)
		values = append(values, failedJob{j.ID, j.Kind, j.Campaign, j.Attempt, known, j.FailedAt.UTC()})
		lines = append(lines, fmt.Sprintf("%s %s: %s (%s)", short(visible(j.Kind)), short(visible(j.ID)), reason.Text, relative(j.FailedAt, v.now)))
	}
	if more := q.Failed - len(failed); more > 0 && len(failed) > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	failures := alarm(q.Failed)
	failures.Lines = lines
	r.cells = []cell{
		text(q.Queue), queueState(q, v), instant(q.HeldUntil, v.now), number(q.Pending), number(q.Scheduled), number(q.Active), failures,
		{value: values},
		number(q.Done), number(q.Soon), alarm(q.Stuck), number(q.Processed), lasting(q.Latency),
		{value: q.Paused},
	}
	r.verbs = []string{"pause"}
	if q.Paused || q.HeldUntil.After(v.now) {
		r.verbs = []string{"resume"}
	}
	if q.Failed > 0 {
		r.verbs = append(r.verbs, "retry", "delete")
	}
	return r
}

func queueState(q *jobs.QueueInfo, v view) cell {
	switch {
	case q.Paused:
		return word("paused", "warn")
	case q.HeldUntil.After(v.now):
		return word("held", "warn")
	case q.Active > 0:
		return word("running", "ok")
	}
	return word("idle", "ok")
}

func queuePlan(ctx context.Context, r runner, verb, option string) (plan, error) {
	snap, err := r.Snapshot(ctx)
	at := slices.IndexFunc(snap.Queues, func(q jobs.QueueInfo) bool { return q.Queue == option })
	switch {
	case at < 0 && err != nil:
		return plan{}, err
	case at < 0:
		return plan{}, errUnknown
	}
	e, n := r.Engine(), min(snap.Queues[at].Failed, controlledMax)
	switch verb {
	case "pause":
		return plan{-1, "", func(ctx context.Context) (int, error) { return -1, e.Pause(ctx, option) }}, nil
	case "resume":
		return plan{-1, "", func(ctx context.Context) (int, error) { return -1, e.Resume(ctx, option) }}, nil
	case "retry":
		return plan{n, "failed jobs", func(ctx context.Context) (int, error) { return eachFailed(ctx, e, option, e.RunNow) }}, nil
	case "delete":
		return plan{n, "failed jobs", func(ctx context.Context) (int, error) { return eachFailed(ctx, e, option, e.Delete) }}, nil
	}
	return plan{}, errVerb
}

// eachFailed calls f for the failed jobs of a queue, at most 1,000, and returns the number of
// those that it changed. Jobs that another client has changed are skipped.
func eachFailed(ctx context.Context, e jobs.Engine, queue string, f func(ctx context.Context, queue, id string) error) (n int, err error) {
	var ids []string
	for info, err := range e.List(ctx, queue, jobs.Failed) {
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
		case !errors.Is(err, jobs.ErrNotFound) && !errors.Is(err, jobs.ErrState):
			return n, err
		}
	}
	return n, nil
}
