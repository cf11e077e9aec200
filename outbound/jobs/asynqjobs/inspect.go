package asynqjobs

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/jobs"
)

const pageSize = 500

// inspectScript returns the counts of a queue in one moment.
//
//nolint:gochecknoglobals // a constant
var inspectScript = redis.NewScript(`
local prefix = KEYS[1]
local pending, active = redis.call("LLEN", prefix .. "pending"), redis.call("LLEN", prefix .. "active")
local soon = pending + redis.call("ZCOUNT", prefix .. "scheduled", "-inf", ARGV[1]) + redis.call("ZCOUNT", prefix .. "retry", "-inf", ARGV[1])
local stuck = 0
for _, id in ipairs(redis.call("LRANGE", prefix .. "active", 0, -1)) do
	if not redis.call("ZSCORE", prefix .. "lease", id) then stuck = stuck + 1 end
end
local since = ""
local oldest = redis.call("LINDEX", prefix .. "pending", -1)
if oldest then since = redis.call("HGET", prefix .. "t:" .. oldest, "pending_since") or "" end
return {pending, redis.call("ZCARD", prefix .. "scheduled") + redis.call("ZCARD", prefix .. "retry"), active,
	redis.call("ZCARD", prefix .. "archived"), redis.call("ZCARD", prefix .. "completed"), soon, stuck,
	tonumber(redis.call("GET", prefix .. "processed") or 0), since,
	redis.call("GET", prefix .. "paused") or "", redis.call("PTTL", prefix .. "paused")}`)

// prefix is that of the keys of a queue, as asynq names them.
func prefix(queue string) string { return "asynq:{" + queue + "}:" }

// Inspect implements [jobs.Inspector]. Processed counts what asynq counts.
func (e *Engine) Inspect(ctx context.Context, queue string) (jobs.QueueInfo, error) {
	info, now := jobs.QueueInfo{Queue: queue}, time.Now()
	reply, err := inspectScript.Run(ctx, e.redis, []string{prefix(queue)}, now.Add(jobs.Soon).Unix()).Slice()
	if err != nil {
		return info, failed(ctx, err)
	}
	var counts [8]int64
	for i := range counts {
		counts[i], _ = reply[i].(int64)
	}
	info.Pending, info.Scheduled, info.Active, info.Failed = int(counts[0]), int(counts[1]), int(counts[2]), int(counts[3])
	info.Done, info.Soon, info.Stuck, info.Processed = int(counts[4]), int(counts[5]), int(counts[6]), uint64(counts[7])
	if since, _ := reply[8].(string); since != "" {
		nanos, _ := strconv.ParseInt(since, 10, 64)
		info.Latency = max(0, now.Sub(time.Unix(0, nanos)))
	}
	left, _ := reply[10].(int64)
	switch by, _ := reply[9].(string); by {
	case "":
	case heldBy:
		info.HeldUntil = now.Add(time.Duration(max(0, left)) * time.Millisecond)
	default:
		info.Paused = true
	}
	return info, nil
}

// List implements [jobs.Inspector]. It reads pages of 500 jobs.
func (e *Engine) List(ctx context.Context, queue string, state jobs.State) iter.Seq2[jobs.Info, error] {
	type lister = func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	listers := map[jobs.State][]lister{
		jobs.Pending: {e.inspector.ListPendingTasks}, jobs.Active: {e.inspector.ListActiveTasks},
		jobs.Scheduled: {e.inspector.ListScheduledTasks, e.inspector.ListRetryTasks},
		jobs.Failed:    {e.inspector.ListArchivedTasks}, jobs.Done: {e.inspector.ListCompletedTasks},
	}
	return func(yield func(jobs.Info, error) bool) {
		for _, list := range listers[state] {
			for page, more := 1, true; more; page++ {
				if ctx.Err() != nil {
					yield(jobs.Info{}, context.Cause(ctx))
					return
				}
				tasks, err := list(queue, asynq.Page(page), asynq.PageSize(pageSize))
				if errors.Is(err, asynq.ErrQueueNotFound) {
					return
				}
				if err != nil {
					yield(jobs.Info{}, failed(ctx, err))
					return
				}
				for _, task := range tasks {
					if !yield(infoOf(task, state), nil) {
						return
					}
				}
				more = len(tasks) == pageSize
			}
		}
	}
}

func infoOf(task *asynq.TaskInfo, state jobs.State) jobs.Info {
	info := jobs.Info{
		Job:   jobOf(task.ID, task.Queue, task.Type, task.Payload, task.Headers, task.Retried, task.MaxRetry),
		State: state, LastError: task.LastErr, FailedAt: task.LastFailedAt,
	}
	if state == jobs.Scheduled {
		info.At = task.NextProcessAt
	}
	return info
}

// RunNow implements [jobs.Inspector].
func (e *Engine) RunNow(ctx context.Context, queue, id string) error {
	return e.change(ctx, queue, id, e.inspector.RunTask, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived)
}

// Delete implements [jobs.Inspector].
func (e *Engine) Delete(ctx context.Context, queue, id string) error {
	return e.change(ctx, queue, id, e.inspector.DeleteTask, asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateArchived, asynq.TaskStateCompleted)
}

// change changes a job if its state permits it. asynq checks the state in the same step as the change,
// but its error does not name it.
func (e *Engine) change(ctx context.Context, queue, id string, f func(queue, id string) error, permitted ...asynq.TaskState) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	task, err := e.inspector.GetTaskInfo(queue, id)
	if err == nil {
		if !slices.Contains(permitted, task.State) {
			return jobs.ErrState
		}
		err = e.send(ctx, func() error { return f(queue, id) })
	}
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return jobs.ErrNotFound
	case err != nil:
		if task, other := e.inspector.GetTaskInfo(queue, id); other == nil && !slices.Contains(permitted, task.State) {
			return jobs.ErrState // it has changed meanwhile
		}
		return failed(ctx, err)
	}
	return nil
}
