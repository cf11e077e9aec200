package asynqjobs

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// repairScript gives active tasks without a lease one that has expired.
//
//nolint:gochecknoglobals // a constant
var repairScript = redis.NewScript(`
local prefix, repaired = KEYS[1], 0
for _, id in ipairs(redis.call("LRANGE", prefix .. "active", 0, -1)) do
	if not redis.call("ZSCORE", prefix .. "lease", id) then
		local there = redis.call("EXISTS", prefix .. "t:" .. id)
		if there == 1 then
			redis.call("ZADD", prefix .. "lease", "NX", ARGV[1], id)
			redis.call("HSET", prefix .. "t:" .. id, "gresil-waits", 1) -- no process has ended with it
		end
		if there == 0 then redis.call("LREM", prefix .. "active", 0, id) end
		repaired = repaired + 1
	end
end
return repaired`)

// Repair repairs the stuck jobs of a queue, and returns their number. A job is stuck if it is active
// and has no lease, after some errors of Redis: no process of asynq redelivers it. Repair gives it a
// lease that has just expired. If a process runs it nevertheless, that process extends the lease;
// otherwise the job runs again within 25 to 40 seconds, if a Run is there. An entry without a job is
// removed. QueueInfo.Stuck is the number of stuck jobs.
func (e *Engine) Repair(ctx context.Context, queue string) (repaired int, err error) {
	err = e.send(ctx, func() (err error) {
		repaired, err = repairScript.Run(ctx, e.redis, []string{prefix(queue)}, time.Now().Unix()).Int()
		return err
	})
	if err != nil {
		return 0, failed(ctx, err)
	}
	return repaired, nil
}
