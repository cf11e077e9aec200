package asynqjobs

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

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

// Pause implements [jobs.Inspector]. The pause is that of the tools of asynq.
func (e *Engine) Pause(ctx context.Context, queue string) error {
	err := e.send(ctx, func() error {
		return e.redis.Set(ctx, prefix(queue)+"paused", strconv.FormatInt(time.Now().Unix(), 10), 0).Err()
	})
	if err != nil {
		return failed(ctx, err)
	}
	return nil
}

// Resume implements [jobs.Inspector].
func (e *Engine) Resume(ctx context.Context, queue string) error {
	if err := e.send(ctx, func() error { return e.redis.Del(ctx, prefix(queue)+"paused").Err() }); err != nil {
		return failed(ctx, err)
	}
	return nil
}

// Hold implements [jobs.Inspector]. It ends by the clock of Redis, also without a process.
func (e *Engine) Hold(ctx context.Context, queue string, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return nil
	}
	millis := int64((d + time.Millisecond - 1) / time.Millisecond)
	err := e.send(ctx, func() error {
		return holdScript.Run(ctx, e.redis, []string{prefix(queue) + "paused"}, heldBy, millis).Err()
	})
	if err != nil {
		return failed(ctx, err)
	}
	return nil
}
