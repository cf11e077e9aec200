package asynqjobs

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/jobs"
)

// The fields of the hash of a task that asynq does not know. They end with it.
const (
	fieldLost  = "gresil-lost"  // how many leases have expired during the attempt
	fieldWaits = "gresil-waits" // the lease is not for an attempt yet
)

// suspicious is the number of losses from which a job can be what ends its processes.
const suspicious = 2

// margin is the time after the end of a lease at which a job is taken for lost. asynq does so after 30
// seconds, and does not count.
const margin = 25 * time.Second

// lostError is the last error of a job that was lost.
const lostError = "asynqjobs: the process ended, or lost Redis, during the attempt"

// recoverScript lets the jobs run again whose leases have expired, and counts that. Their messages get a
// header, which is the field 15 of the encoding, and what ARGV[3] has. A process of asynq that has just
// read the same leases finds no active task: so a job does not run again before a second has passed.
//
//nolint:gochecknoglobals // a constant
var recoverScript = redis.NewScript(`
local prefix = KEYS[1]
for _, id in ipairs(redis.call("ZRANGEBYSCORE", prefix .. "lease", "-inf", ARGV[1], "LIMIT", 0, 1000)) do
	local key = prefix .. "t:" .. id
	local msg = redis.call("HGET", key, "msg")
	if msg and redis.call("LREM", prefix .. "active", 0, id) > 0 then
		redis.call("ZREM", prefix .. "lease", id)
		if redis.call("HDEL", key, "` + fieldWaits + `") == 0 then
			redis.call("HINCRBY", key, "` + fieldLost + `", 1)
			msg = msg .. ARGV[3]
		end
		redis.call("HSET", key, "msg", msg, "state", "retry")
		redis.call("ZADD", prefix .. "retry", ARGV[2], id)
	end
end
return redis.status_reply("OK")`)

// recover lets the jobs of processes that have ended run again.
func (e *Engine) recover(ctx context.Context, queue string) error {
	now := time.Now()
	if err := recoverScript.Run(ctx, e.redis, []string{prefix(queue)}, now.Add(-margin).Unix(), now.Unix()+2, lostMark(now)).Err(); err != nil {
		return failed(ctx, err)
	}
	return nil
}

// lostMark is appended to the message of a task. In the encoding of protocol buffers, the last value of
// a field, or of a key of a map, is the one that counts.
func lostMark(now time.Time) []byte {
	field := func(to []byte, number byte, text []byte) []byte {
		return append(append(to, number<<3|2, byte(len(text))), text...) // less than 128 bytes
	}
	header := field(field(nil, 1, []byte(headerLost)), 2, []byte("1"))
	mark := field(field(nil, 15, header), 7, []byte(lostError))
	return binary.AppendUvarint(append(mark, 11<<3), uint64(now.Unix()))
}

// alone reports whether a job runs while no other suspect does: it is its last attempt, unless it has no
// limit of them. So a job fails only after a process has ended in which it was the only one of these.
func alone(job *jobs.Job) bool {
	return job.Losses >= suspicious && (job.MaxAttempts < 0 || job.Losses >= job.MaxAttempts-1)
}

// suspect makes an attempt of a job that was lost with its process.
func (r *run) suspect(ctx context.Context, job jobs.Job) error {
	e, key := r.engine, prefix(r.queue)+"t:"+job.ID
	later := func(err error) error {
		return &outcome{jobs.Result{Verdict: jobs.Again, At: time.Now().Add(time.Second), Err: failed(ctx, err)}}
	}
	var err error
	if job.Losses, err = e.redis.HGet(ctx, key, fieldLost).Int(); err != nil && !errors.Is(err, redis.Nil) {
		return later(err)
	}
	if alone(&job) {
		if err := e.redis.HSet(ctx, key, fieldWaits, 1).Err(); err != nil {
			return later(err)
		}
		select {
		case e.trial <- struct{}{}:
			defer func() { <-e.trial }()
		case <-r.stopping:
			return &outcome{jobs.Result{Verdict: jobs.Again, At: time.Now()}}
		case <-ctx.Done():
			return &outcome{jobs.Result{Verdict: jobs.Again, At: time.Now()}}
		}
		if err := e.redis.HDel(ctx, key, fieldWaits).Err(); err != nil {
			return later(err)
		}
	}
	err = r.attempt(ctx, job)
	if err != nil && job.Losses > 0 && ctx.Err() == nil {
		_ = e.redis.HDel(context.WithoutCancel(ctx), key, fieldLost).Err() // the attempt has ended; otherwise it counts longer
	}
	return err
}
