package asynqjobs

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

// The fields of the hash of a task that asynq does not know. They end with it.
const (
	fieldLost  = "gresil-lost"  // how many leases have expired during the attempt
	fieldWaits = "gresil-waits" // the lease is not for an attempt yet
)

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
func (e *engine) recover(ctx context.Context, queue string) error {
	now := time.Now()
	return e.send(ctx, func() error {
		return recoverScript.Run(ctx, e.redis, []string{prefix(queue)}, now.Add(-margin).Unix(), now.Unix()+2, lostMark(now)).Err()
	})
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

// repairScript gives active tasks without a lease, which asynq never delivers again, one that has expired. There are some after
// certain errors of Redis. A process that runs one nevertheless extends the lease.
//
//nolint:gochecknoglobals // a constant
var repairScript = redis.NewScript(`
local prefix = KEYS[1]
for _, id in ipairs(redis.call("LRANGE", prefix .. "active", 0, -1)) do
	if not redis.call("ZSCORE", prefix .. "lease", id) then
		if redis.call("EXISTS", prefix .. "t:" .. id) == 0 then
			redis.call("LREM", prefix .. "active", 0, id)
		else
			redis.call("ZADD", prefix .. "lease", "NX", ARGV[1], id)
			redis.call("HSET", prefix .. "t:" .. id, "` + fieldWaits + `", 1) -- no process has ended with it
		end
	end
end
return redis.status_reply("OK")`)

func (e *engine) repair(ctx context.Context, queue string) error {
	return e.send(ctx, func() error {
		return repairScript.Run(ctx, e.redis, []string{prefix(queue)}, time.Now().Unix()).Err()
	})
}

// A stage is where the jobs of a process run: any number together, or a suspect alone, whose last delivery ended with its process. So
// only the suspect is charged if it ends this process too.
type stage struct {
	mu      sync.Mutex
	running int // -1: a suspect
	waiting int // suspects
	changed chan struct{}
}

// enter reports whether a job can run now; otherwise it can try again when the channel is closed.
func (s *stage) enter(suspect bool) (changed <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case suspect && s.running == 0:
		s.running = -1
	case !suspect && s.running >= 0 && s.waiting == 0:
		s.running++
	default:
		return s.changed, false
	}
	return nil, true
}

func (s *stage) leave() { s.change(func() { s.running = max(0, s.running-1) }) }

func (s *stage) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

var errStops = errors.New("asynqjobs: the process stops")

// enter waits until the job can run; leave ends that. While it waits, the end of the process is not charged to it.
func (l *line) enter(ctx context.Context, e *groups.Entry, lost bool) (leave func(), err error) {
	engine, key := l.engine, prefix(l.queue)+"t:"+e.ID
	if lost {
		if e.Losses, err = engine.redis.HGet(ctx, key, fieldLost).Int(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
	}
	s, suspect := &engine.stage, e.Losses > 0 || e.Meta[groups.Suspect] != ""
	changed, ok := s.enter(suspect)
	if ok {
		return s.leave, nil
	}
	if suspect {
		s.change(func() { s.waiting++ })
		defer s.change(func() { s.waiting-- })
	}
	if err = engine.send(ctx, func() error { return engine.redis.HSet(ctx, key, fieldWaits, 1).Err() }); err != nil {
		return nil, err
	}
	for !ok {
		select {
		case <-changed:
		case <-l.stopping.Done():
			return nil, errStops
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		changed, ok = s.enter(suspect)
	}
	if err = engine.send(ctx, func() error { return engine.redis.HDel(ctx, key, fieldWaits).Err() }); err != nil {
		s.leave()
		return nil, err
	}
	return s.leave, nil
}

// forgive forgets the losses of a job whose attempt has ended with the process alive.
func (l *line) forgive(ctx context.Context, e *groups.Entry) {
	if e.Losses > 0 && ctx.Err() == nil {
		ctx = context.WithoutCancel(ctx)
		_ = l.engine.send(ctx, func() error { // if it fails, it counts longer
			return l.engine.redis.HDel(ctx, prefix(l.queue)+"t:"+e.ID, fieldLost).Err()
		})
	}
}
