package asynqjobs

import (
	"context"
	_ "embed" // jobs.lua
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

//go:embed jobs.lua
var jobsText string

//nolint:gochecknoglobals // a constant
var jobsScript = redis.NewScript(jobsText)

const (
	// far is the score, in seconds, from which a job in the set of retries has failed. The archive of asynq forgets tasks.
	far    = 10_000_000_000
	farOff = 280 * 365 * 24 * time.Hour
	// margin is the time after the end of a lease at which a job is taken for lost. asynq does so after 30 seconds, and does not count.
	margin = 25 * time.Second
	// lostError is the last error of a job that was lost.
	lostError = "asynqjobs: the process ended, or lost Redis, during the attempt"
)

// prefix is that of the keys of a queue, as asynq names them.
func prefix(queue string) string { return "asynq:{" + queue + "}:" }

// look looks at queues, with one script for each node, and returns the indexes of those that have work. With only "pending", no other
// jobs are counted; with a mark, jobs that were lost are made to run again.
func (e *engine) look(ctx context.Context, pendingOnly bool, mark string, queues []string) (counts []groups.Counts, busy []int, errs error) {
	counts = make([]groups.Counts, len(queues))
	nodes := map[redis.UniversalClient][]int{} // indexes
	cluster, clustered := e.redis.(*redis.ClusterClient)
	for i, queue := range queues {
		node := e.redis
		if clustered {
			master, err := cluster.MasterForKey(ctx, prefix(queue))
			if err != nil {
				errs = errors.Join(errs, failed(ctx, err)) // other nodes can be reached
				continue
			}
			node = master
		}
		nodes[node] = append(nodes[node], i)
	}
	now := time.Now()
	for node, all := range nodes {
		for part := range slices.Chunk(all, 1000) {
			args := []any{"look", now.Unix(), now.Add(-margin).Unix(), pendingOnly, mark, !clustered}
			for _, i := range part {
				args = append(args, prefix(queues[i]))
			}
			var found reply
			err := e.send(ctx, func() (err error) {
				found, err = jobsScript.Run(ctx, node, nil, args...).Slice()
				return err
			})
			if errs = errors.Join(errs, err); err != nil {
				break
			}
			for i := range found {
				r := found.list(i)
				c := &counts[part[r.int(0)]]
				*c = groups.Counts{
					Paused: r.int(2) == 1, Pending: r.int(4), Scheduled: r.int(5), Active: r.int(6), Failed: r.int(7), Done: r.int(8), Soon: r.int(9),
				}
				if since, err := strconv.ParseInt(r.text(3), 10, 64); err == nil {
					c.Oldest = time.Unix(0, since)
				}
				if r.int(1) == 1 {
					busy = append(busy, part[r.int(0)])
				}
			}
		}
	}
	return counts, busy, errs
}

func (e *engine) Inspect(ctx context.Context, queues ...string) ([]groups.Counts, error) {
	counts, _, err := e.look(ctx, false, "", queues)
	if err != nil {
		return nil, err
	}
	return counts, nil
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
	e.lines, e.recovers = append(e.lines, l), true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.lines = slices.DeleteFunc(slices.Clone(e.lines), func(o *line) bool { return o == l })
		if len(e.lines) == 0 {
			e.stop()
		}
	}
}

// watch looks at the queues of all lines, and wakes those that have work. When a second begins, it also looks for jobs whose time has
// come, for those of processes that have ended, and for those whose Retain is over. Jobs of processes that have ended are counted as lost
// before the first server of a queue begins, which would let them run again and not count that.
func (e *engine) watch(ctx context.Context) {
	ticker := time.NewTicker(e.config.Poll)
	defer ticker.Stop()
	for second := int64(0); ; {
		e.mu.Lock()
		lines, recovers := e.lines, e.recovers
		e.recovers = false
		e.mu.Unlock()
		queues := make([]string, len(lines))
		for i, l := range lines {
			queues[i] = l.queue
		}
		now := time.Now()
		_, busy, err := e.look(ctx, now.Unix() == second && !recovers, lostMark(now), queues)
		if second = now.Unix(); err != nil && ctx.Err() == nil {
			second = 0 // the next look is not for pending jobs only
			e.config.Logger.LogAttrs(ctx, slog.LevelWarn, "queues could not be looked at", slog.Any("err", err))
		}
		for _, i := range busy {
			lines[i].wake()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// lostMark is appended to the message of a task that was lost. In the encoding of protocol buffers, the last value of a field, or of a
// key of a map, is the one that counts.
func lostMark(now time.Time) string {
	field := func(to []byte, number byte, text string) []byte {
		return append(append(to, number<<3|2, byte(len(text))), text...) // less than 128 bytes
	}
	header := field(field(nil, 1, headerLost), 2, "1")
	mark := field(field(nil, 15, string(header)), 7, lostError)
	return string(binary.AppendUvarint(append(mark, 11<<3), uint64(now.Unix())))
}
