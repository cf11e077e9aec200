package asynqjobs

import (
	"cmp"
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/jobs"
)

const pageSize = 500

// List reads pages of 500 jobs.
func (e *engine) List(ctx context.Context, queue, state string) iter.Seq2[groups.Entry, error] {
	type lister = func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	lists := map[jobs.State][]lister{
		jobs.Pending: {e.inspector.ListPendingTasks, e.inspector.ListScheduledTasks, e.inspector.ListRetryTasks},
		jobs.Active:  {e.inspector.ListActiveTasks}, jobs.Scheduled: {e.inspector.ListScheduledTasks, e.inspector.ListRetryTasks},
		jobs.Failed: {e.inspector.ListRetryTasks, e.inspector.ListArchivedTasks}, jobs.Done: {e.inspector.ListCompletedTasks},
	}[jobs.State(state)]
	return func(yield func(groups.Entry, error) bool) {
		var tasks []*asynq.TaskInfo
		page := 1
		counts, err := e.Inspect(ctx, queue)
		if err == nil {
			if counts[0] == (groups.Counts{}) {
				return
			}
			_ = e.redis.SAdd(ctx, "asynq:queues", queue).Err() // Redis can have lost it; asynq adds it once in each process
		}
		if state == string(jobs.Failed) { // they are at the end of the list
			page += int(e.redis.ZCount(ctx, prefix(queue)+"retry", "-inf", "("+strconv.Itoa(far)).Val()) / pageSize
		}
		for len(lists) > 0 && err == nil {
			tasks, err = lists[0](queue, asynq.Page(page), asynq.PageSize(pageSize))
			last := len(tasks) < pageSize
			for _, task := range tasks {
				is := string(stateOf(task, jobs.State(state)))
				if is == state && !yield(entryOf(task, state), nil) {
					return
				}
				last = last || is != state && state == string(jobs.Pending) // those that follow are not due either
			}
			if page++; last {
				page, lists = 1, lists[1:]
			}
			err = cmp.Or(err, context.Cause(ctx))
		}
		if err != nil {
			yield(groups.Entry{}, failed(ctx, err))
		}
	}
}

// stateOf returns the state of a task that was listed for one. If its time has come it is pending, though only a server makes it that for
// asynq.
func stateOf(task *asynq.TaskInfo, listed jobs.State) jobs.State {
	retry, at := task.State == asynq.TaskStateRetry, task.NextProcessAt.Unix()
	switch {
	case !retry && task.State != asynq.TaskStateScheduled:
		return listed
	case retry && at >= far:
		return jobs.Failed
	case at > time.Now().Unix():
		return jobs.Scheduled
	}
	return jobs.Pending
}

func entryOf(task *asynq.TaskInfo, state string) groups.Entry {
	job := jobOf(task.ID, task.Queue, task.Payload, task.Headers, task.Retried, task.MaxRetry)
	e := groups.Entry{Job: job, State: state, LastError: task.LastErr}
	if state == string(jobs.Scheduled) {
		e.Due = task.NextProcessAt
	}
	return e
}

// script runs an operation of jobs.lua for a queue, and returns its result.
func (e *engine) script(ctx context.Context, queue string, args ...any) (int, error) {
	return send(ctx, e, func() (int, error) { return jobsScript.Run(ctx, e.redis, []string{prefix(queue)}, args...).Int() })
}

// Control pauses a queue in the way the tools of asynq do.
func (e *engine) Control(ctx context.Context, queue string, v groups.Verb, id string) error {
	n, err := e.script(ctx, queue, "control", string(v), id, time.Now().Unix())
	if err == nil && n == 0 {
		return groups.ErrNotFound
	}
	return err
}

// Hold sets a pause that ends by the clock of Redis, whether or not a process runs.
func (e *engine) Hold(ctx context.Context, queue string, until time.Time) error {
	_, err := e.script(ctx, queue, "hold", max(1, (time.Until(until)+time.Millisecond-1).Milliseconds()))
	return err
}
