package asynqjobs

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/jobs"
)

const pageSize = 500

// List reads pages of 500 jobs.
func (e *engine) List(ctx context.Context, queue, state string) iter.Seq2[groups.Entry, error] {
	type lister = func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	listers := map[jobs.State][]lister{
		jobs.Pending: {e.inspector.ListPendingTasks}, jobs.Active: {e.inspector.ListActiveTasks},
		jobs.Scheduled: {e.inspector.ListScheduledTasks, e.inspector.ListRetryTasks},
		jobs.Failed:    {e.inspector.ListRetryTasks, e.inspector.ListArchivedTasks}, jobs.Done: {e.inspector.ListCompletedTasks},
	}
	return func(yield func(groups.Entry, error) bool) {
		first := 1
		if state == string(jobs.Failed) { // they are the last ones
			n, err := e.redis.ZCount(ctx, prefix(queue)+"retry", "-inf", "("+strconv.Itoa(far)).Result()
			if err != nil {
				yield(groups.Entry{}, failed(ctx, err))
				return
			}
			first += int(n) / pageSize
		}
		for _, list := range listers[jobs.State(state)] {
			for page, more := first, true; more; page++ {
				if ctx.Err() != nil {
					yield(groups.Entry{}, context.Cause(ctx))
					return
				}
				tasks, err := list(queue, asynq.Page(page), asynq.PageSize(pageSize))
				if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
					yield(groups.Entry{}, failed(ctx, err))
					return
				}
				for _, task := range tasks {
					failed := task.State == asynq.TaskStateArchived || task.State == asynq.TaskStateRetry && task.NextProcessAt.Unix() >= far
					if failed == (state == string(jobs.Failed)) && !yield(entryOf(task, state), nil) {
						return
					}
				}
				more = len(tasks) == pageSize
			}
			first = 1
		}
	}
}

func entryOf(task *asynq.TaskInfo, state string) groups.Entry {
	job := jobOf(task.ID, task.Queue, task.Payload, task.Headers, task.Retried, task.MaxRetry)
	e := groups.Entry{Job: job, State: state, LastError: task.LastErr}
	if state == string(jobs.Scheduled) {
		e.Due = task.NextProcessAt
	}
	return e
}

// changeScript runs a task that waits now, deletes one that is not active, or frees the ID of one that has failed, or is done and
// whose retention is over: the janitor of asynq runs only beside a handler. It reports whether it could. A task that runs now has no
// attempts: field 6 of the encoding is their number, and its last value counts.
//
//nolint:gochecknoglobals // a constant
var changeScript = redis.NewScript(`
local prefix, verb, id, now, far = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local key = prefix .. "t:" .. id
local state = redis.call("HGET", key, "state")
if not state then return verb == "free" and redis.call("EXISTS", key) == 0 and 1 or 0 end
local score = state ~= "active" and state ~= "pending" and tonumber(redis.call("ZSCORE", prefix .. state, id) or -1)
if verb == "free" and not (state == "archived" or state == "retry" and score >= far or state == "completed" and score <= now)
	or verb == "run" and (not score or state == "completed") or state == "active" then return 0 end
if score then redis.call("ZREM", prefix .. state, id) else redis.call("LREM", prefix .. state, 0, id) end
if verb == "run" then
	redis.call("HSET", key, "msg", redis.call("HGET", key, "msg") .. "\48\0", "state", "pending", "pending_since", ARGV[3] .. "000000000")
	redis.call("HDEL", key, "` + fieldLost + `")
	redis.call("LPUSH", prefix .. "pending", id)
	return 1
end
local unique = redis.call("HGET", key, "unique_key") -- of a task of another client
if unique and unique ~= "" and redis.call("GET", unique) == id then redis.call("DEL", unique) end
redis.call("DEL", key)
return 1`)

// change changes a job if its state permits it.
func (e *engine) change(ctx context.Context, verb, queue, id string) (ok bool, err error) {
	err = e.send(ctx, func() error {
		ok, err = changeScript.Run(ctx, e.redis, []string{prefix(queue)}, verb, id, time.Now().Unix(), far).Bool()
		return err
	})
	return ok, failed(ctx, err)
}

func (e *engine) RunNow(ctx context.Context, queue, id string) error {
	return found(e.change(ctx, "run", queue, id))
}

func (e *engine) Delete(ctx context.Context, queue, id string) error {
	return found(e.change(ctx, "delete", queue, id))
}

func found(ok bool, err error) error {
	if err == nil && !ok {
		return groups.ErrNotFound
	}
	return err
}

// heldBy is the value of the pause key of a queue that is held until a time. Its expiry ends the hold,
// also if all processes have died. Any other value is the pause of a person, by Pause or by a tool of
// asynq.
const heldBy = "gresil:hold"

// holdScript holds a queue for ARGV[2] milliseconds, unless it is paused or held for longer.
//
//nolint:gochecknoglobals // a constant
var holdScript = redis.NewScript(`
local by = redis.call("GET", KEYS[1])
if by and (by ~= ARGV[1] or redis.call("PTTL", KEYS[1]) >= tonumber(ARGV[2])) then return 0 end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1`)

// Pause is that of the tools of asynq.
func (e *engine) Pause(ctx context.Context, queue string, paused bool) error {
	return failed(ctx, e.send(ctx, func() error {
		if paused {
			return e.redis.Set(ctx, prefix(queue)+"paused", strconv.FormatInt(time.Now().Unix(), 10), 0).Err()
		}
		return e.redis.Del(ctx, prefix(queue)+"paused").Err()
	}))
}

// Hold ends by the clock of Redis, also without a process.
func (e *engine) Hold(ctx context.Context, queue string, until time.Time) error {
	millis := (time.Until(until) + time.Millisecond - 1).Milliseconds()
	if millis <= 0 {
		return nil
	}
	return failed(ctx, e.send(ctx, func() error {
		return holdScript.Run(ctx, e.redis, []string{prefix(queue) + "paused"}, heldBy, millis).Err()
	}))
}
