package asynqjobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

// far is the score, in seconds, from which a job in the set of retries has failed. The archive of asynq forgets tasks.
const (
	far    = 10_000_000_000
	farOff = 280 * 365 * 24 * time.Hour
)

// lookScript returns the counts of the queues that have jobs, out of any number on one node. The keys that count are those of ARGV[5].
// If ARGV[6] is 1, idle queues cost one command together; a command in a Cluster can look at the keys of one queue only. The prefixes
// of the queues begin at ARGV[7].
//
//nolint:gochecknoglobals // a constant
var lookScript = redis.NewScript(`
local now, soon, far, lost, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local names = {pending = {"pending"}, full = {"pending", "active", "scheduled", "retry"},
	all = {"pending", "active", "scheduled", "retry", "archived", "completed", "paused"}}
local found = {}
local function first(key) return tonumber(redis.call("ZRANGE", key, 0, 0, "WITHSCORES")[2] or far) end
local function upTo(key, score) return redis.call("ZCOUNT", key, "-inf", score) end
local function look(from, to)
	local keys = {}
	for i = from, to do
		for _, name in ipairs(names[kind]) do keys[#keys + 1] = ARGV[i] .. name end
	end
	if redis.call("EXISTS", unpack(keys)) == 0 then return end
	if from < to then
		local middle = math.floor((from + to) / 2)
		look(from, middle)
		look(middle + 1, to)
		return
	end
	local p = ARGV[from]
	local pending, paused = redis.call("LLEN", p .. "pending"), redis.call("GET", p .. "paused") or ""
	if kind == "pending" then
		found[#found + 1] = {from - 7, paused, "", pending}
		return
	end
	local scheduled, retry, active = p .. "scheduled", p .. "retry", redis.call("LLEN", p .. "active")
	local due, failed = upTo(scheduled, now) + upTo(retry, now), redis.call("ZCOUNT", retry, far, "+inf")
	local waiting, oldest = redis.call("ZCARD", scheduled) + redis.call("ZCARD", retry) - failed, redis.call("LINDEX", p .. "pending", -1)
	local over = upTo(p .. "completed", now)
	found[#found + 1] = {from - 7, paused, oldest and redis.call("HGET", p .. "t:" .. oldest, "pending_since") or "",
		pending + due, waiting - due, active, failed + redis.call("ZCARD", p .. "archived"), redis.call("ZCARD", p .. "completed") - over,
		upTo(scheduled, soon) + upTo(retry, soon) - due, upTo(p .. "lease", lost), active - redis.call("ZCARD", p .. "lease"),
		over, math.min(first(scheduled), first(retry))}
end
local together = ARGV[6] == "1" and #ARGV - 6 or 1
for i = 7, #ARGV, together do look(i, i + together - 1) end
return found`)

// prefix is that of the keys of a queue, as asynq names them.
func prefix(queue string) string { return "asynq:{" + queue + "}:" }

// A report is what is known of a queue.
type report struct {
	groups.Counts

	held        bool
	lost, stuck int64 // active jobs whose lease has ended; that have none
	over        int64 // done jobs whose Retain is over
	next        int64 // when the next job is due that waits for its time, or far; 0 is not known
}

// look looks at queues, with one script for each node. The kind is one of lookScript.
func (e *engine) look(ctx context.Context, kind string, queues []string) ([]report, error) {
	reports := make([]report, len(queues))
	nodes := map[redis.UniversalClient][]int{} // indexes
	cluster, clustered := e.redis.(*redis.ClusterClient)
	for i, queue := range queues {
		node := e.redis
		if clustered {
			master, err := cluster.MasterForKey(ctx, prefix(queue))
			if err != nil {
				return nil, failed(ctx, err)
			}
			node = master
		}
		nodes[node] = append(nodes[node], i)
	}
	now := time.Now()
	for node, all := range nodes {
		for part := range slices.Chunk(all, 1000) {
			args := []any{now.Unix(), now.Add(time.Minute).Unix(), far, now.Add(-margin).Unix(), kind, !clustered}
			for _, i := range part {
				args = append(args, prefix(queues[i]))
			}
			reply, err := lookScript.Run(ctx, node, nil, args...).Slice()
			if err != nil {
				return nil, failed(ctx, err)
			}
			for _, found := range reply {
				values, _ := found.([]any)
				i, r := reportOf(values)
				reports[part[i]] = r
			}
		}
	}
	return reports, nil
}

func reportOf(values []any) (i int64, r report) {
	var n [13]int64
	for j, v := range values {
		n[j], _ = v.(int64)
	}
	r.Pending, r.Scheduled, r.Active, r.Failed, r.Done, r.Soon = int(n[3]), int(n[4]), int(n[5]), int(n[6]), int(n[7]), int(n[8])
	r.lost, r.stuck, r.over, r.next = n[9], n[10], n[11], n[12]
	by, _ := values[1].(string)
	r.held = by == heldBy
	r.Paused = by != "" && !r.held
	since, _ := values[2].(string)
	if nanos, err := strconv.ParseInt(since, 10, 64); err == nil {
		r.Oldest = time.Unix(0, nanos)
	}
	return n[0], r
}

func (e *engine) Inspect(ctx context.Context, queues ...string) ([]groups.Counts, error) {
	reports, err := e.look(ctx, "all", queues)
	counts := make([]groups.Counts, len(reports))
	for i, r := range reports {
		counts[i] = r.Counts
	}
	return counts, err
}

// join lets a line be looked at, together with all others of the process, until leave is called.
func (e *engine) join(l *line) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.lines) == 0 {
		ctx, stop := context.WithCancel(context.Background())
		e.stop = stop
		go e.watch(ctx)
	}
	e.lines[l], e.recovers = struct{}{}, true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.lines, l); len(e.lines) == 0 {
			e.stop()
		}
	}
}

// watch looks at the queues of all lines, and tells those that have work. Once a second, and when the next job is due, it also looks for
// jobs whose time has come, and for those of processes that have ended; once a minute for those whose Retain is over.
func (e *engine) watch(ctx context.Context) {
	ticker := time.NewTicker(e.config.Poll)
	defer ticker.Stop()
	full, all, next := time.Time{}, time.Now(), int64(far)
	for {
		kind, now := "pending", time.Now()
		if now.Sub(full) >= fullEvery || now.Unix() >= next {
			kind, full = "full", now
		}
		if now.Sub(all) >= allEvery {
			kind, all = "all", now
		}
		due, err := e.tell(ctx, kind)
		if err != nil && ctx.Err() == nil {
			e.config.Logger.LogAttrs(ctx, slog.LevelWarn, "queues could not be looked at", slog.Any("err", err))
		}
		if kind != "pending" {
			next = due
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// tell looks once, and returns when the next job is due. Jobs of processes that have ended are counted as lost before a server begins,
// which would let them run again and not count that.
func (e *engine) tell(ctx context.Context, kind string) (next int64, err error) {
	e.mu.Lock()
	if e.recovers && kind == "pending" {
		kind = "full"
	}
	e.recovers = false
	defer func() {
		if err != nil {
			e.mu.Lock()
			e.recovers = true
			e.mu.Unlock()
		}
	}()
	lines := map[string][]*line{}
	for l := range e.lines {
		lines[l.queue] = append(lines[l.queue], l)
	}
	e.mu.Unlock()
	queues := make([]string, 0, len(lines))
	for queue := range lines {
		queues = append(queues, queue)
	}
	reports, err := e.look(ctx, kind, queues)
	if err != nil {
		return far, err
	}
	next = far
	for i, r := range reports {
		if r.next > time.Now().Unix() {
			next = min(next, r.next)
		}
		if r.lost > 0 {
			err = e.recover(ctx, queues[i])
		}
		if r.stuck > 0 && err == nil {
			err = e.repair(ctx, queues[i])
		}
		if err != nil {
			return far, fmt.Errorf("jobs of the queue %q could not be recovered: %w", queues[i], err)
		}
		if r.Pending > 0 && !r.Paused && !r.held || r.over > 0 { // the janitor of a server deletes those that are over
			for _, l := range lines[queues[i]] {
				l.wake()
			}
		}
	}
	return next, nil
}
