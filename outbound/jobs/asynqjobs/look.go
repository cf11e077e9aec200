package asynqjobs

import (
	"cmp"
	"context"
	_ "embed" // jobs.lua
	"encoding/binary"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

//go:embed jobs.lua
var jobsText string

//nolint:gochecknoglobals // a constant
var jobsScript = redis.NewScript(jobsText)

const (
	// far is the score, in seconds, from which a job in the set of retries counts as failed. The archive of asynq is not
	// used, since it drops tasks.
	far    = 10_000_000_000
	farOff = 280 * 365 * 24 * time.Hour
	// margin is the time after the end of a lease at which a job is taken for lost. asynq itself recovers it after 30 seconds, without
	// counting the loss.
	margin = 25 * time.Second
	// lostError is set as the last error of a job that was lost.
	lostError = "asynqjobs: the process ended, or lost Redis, during the attempt"
)

// prefix returns the prefix of the keys of a queue, as asynq names them.
func prefix(queue string) string { return "asynq:{" + queue + "}:" }

// look returns the counts of queues, and the indexes of those that have work, with one script for each node. With pendingOnly, only pending
// jobs are counted; with a mark, jobs that were lost are made to run again.
func (e *engine) look(ctx context.Context, pendingOnly bool, mark string, queues []string) (counts []groups.Counts, busy []int, first error) {
	counts = make([]groups.Counts, len(queues))
	nodes := map[redis.UniversalClient][]int{} // indexes
	cluster, clustered := e.redis.(*redis.ClusterClient)
	for i, queue := range queues {
		node := e.redis
		if clustered {
			master, err := cluster.MasterForKey(ctx, prefix(queue))
			if err != nil {
				first = cmp.Or(first, failed(ctx, err)) // other nodes can be reached
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
			found, err := send(ctx, e, func() ([]any, error) { return jobsScript.Run(ctx, node, nil, args...).Slice() })
			if first = cmp.Or(first, err); err != nil {
				break
			}
			for i := range found {
				r := reply(found).list(i)
				counts[part[r.int(0)]] = groups.Counts{
					Paused: r.int(2) == 1, Oldest: r.time(3), Pending: r.int(4), Scheduled: r.int(5), Active: r.int(6), Failed: r.int(7),
					Done: r.int(8), Soon: r.int(9),
				}
				if r.int(1) == 1 {
					busy = append(busy, part[r.int(0)])
				}
			}
		}
	}
	return counts, busy, first
}

func (e *engine) Inspect(ctx context.Context, queues ...string) ([]groups.Counts, error) {
	counts, _, err := e.look(ctx, false, "", queues)
	return counts, err
}

// join adds a line to those that watch looks at, until leave is called.
func (e *engine) join(l *line) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.lines) == 0 {
		ctx, stop := context.WithCancel(context.Background())
		e.stop = stop
		go e.watch(ctx)
	}
	e.lines = append(e.lines, l)
	e.second.Store(0)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.lines = slices.DeleteFunc(slices.Clone(e.lines), func(o *line) bool { return o == l })
		if len(e.lines) == 0 {
			e.stop()
		}
	}
}

// watch looks at the queues of all lines, and wakes those that have work. Once a second, it also looks for jobs that have become due, for
// jobs of processes that have ended, and for those whose Retain is over. Jobs of processes that have ended are counted as lost before the
// first server of a queue starts, since the server would let them run again without counting that.
func (e *engine) watch(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		full := e.second.Swap(now.Unix()) != now.Unix() // before the lines are read: one that joins then is in the next look
		e.mu.Lock()
		lines := e.lines
		e.mu.Unlock()
		queues := make([]string, len(lines))
		for i, l := range lines {
			queues[i] = l.queue
		}
		_, busy, err := e.look(ctx, !full, lostMark(now), queues)
		if err != nil && ctx.Err() == nil {
			e.second.Store(0)
			e.config.Logger.LogAttrs(ctx, slog.LevelWarn, "queues could not be read", slog.Any("err", err))
		}
		for _, i := range busy {
			select {
			case lines[i].work <- struct{}{}:
			default:
			}
		}
		groups.Sleep(ctx, time.Until(now.Add(e.config.Poll)), nil)
	}
}

// lostMark returns what is appended to the message of a lost task. In the encoding of protocol buffers, the last value of a field, or of a
// key of a map, is the one that counts.
func lostMark(now time.Time) string {
	field := func(to []byte, number byte, text string) []byte {
		return append(append(to, number<<3|2, byte(len(text))), text...) // less than 128 bytes
	}
	header := field(field(nil, 1, headerLost), 2, "1")
	mark := field(field(nil, 15, string(header)), 7, lostError)
	return string(binary.AppendUvarint(append(mark, 11<<3), uint64(now.Unix())))
}
