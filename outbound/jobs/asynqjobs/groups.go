package asynqjobs

import (
	"cmp"
	"context"
	_ "embed" // groups.lua
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/groups"
)

//go:embed groups.lua
var groupsText string

// lostAfter is the time after which a loaded batch is given out again, in case its job was lost. If the job was not lost, the engine still
// runs only one job of the batch.
const lostAfter = time.Minute

const (
	slice     = 500                   // groups or IDs in one call of the script
	readEvery = 25 * time.Millisecond // the least time between two readings of the changes of all queues
	lookAgain = time.Minute           // the longest time for which a queue without changes is not looked at
)

var errReply = errors.New("asynqjobs: unexpected reply from the script of groups")

// A store keeps groups in Redis. In a Cluster, all keys of a queue have the same slot.
type store struct {
	*engine

	script  *redis.Script
	changed atomic.Bool // this process has changed a queue since read

	mu    sync.Mutex
	views map[string]*view // by queue; nil in a Cluster, where one command cannot read the changes of many queues
	read  time.Time        // when these were last read
}

// A view is what a Take has found in a queue in which no group was due.
type view struct {
	state         groups.State
	flushAfter    time.Duration
	until         time.Time // when a group is due if nothing changes, or in a minute
	version, last string    // when the last change was: then, and as last read
}

var _ groups.Store = (*store)(nil)

func (s *store) run(ctx context.Context, queue string, args ...any) (reply, error) {
	return send(ctx, s.engine, func() ([]any, error) { return s.script.Run(ctx, s.redis, []string{s.prefixOf(queue)}, args...).Slice() })
}

func (s *store) prefixOf(queue string) string {
	return cmp.Or(s.config.Prefix, "gresil") + ":groups:{" + queue + "}:"
}

// quiet returns the view of a queue, and whether it still holds, so that nothing can be taken. One command reads the changes of all queues
// from which this process takes, so that many of them cost no more than one while nothing happens.
func (s *store) quiet(ctx context.Context, queue string, t groups.Terms) (v *view, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed := s.changed.Swap(false); len(s.views) > 0 && (changed || time.Since(s.read) >= readEvery) {
		s.read = time.Now()
		queues := slices.Collect(maps.Keys(s.views))
		keys := make([]string, len(queues))
		for i, q := range queues {
			keys[i] = s.prefixOf(q) + "v"
		}
		found, err := s.redis.MGet(ctx, keys...).Result()
		for i, q := range queues {
			s.views[q].last = cmp.Or(reply(found).text(i), "0")
		}
		if err != nil {
			clear(s.views) // so that Take returns the error
		}
	}
	v = s.views[queue]
	ok = v != nil && v.last == v.version && v.flushAfter == t.FlushAfter && t.FlushSize == 0
	return v, ok && time.Now().Before(v.until)
}

// Add implements groups.Store, as the other methods do.
func (s *store) Add(ctx context.Context, queue string, r groups.Record, rules groups.Rules) (id string, due bool, err error) {
	defer s.changed.Store(true) // also if it fails
	got, err := s.run(ctx, queue, "add", r.Group, r.ID, r.Key, r.Payload, rules.FlushSize, rules.MaxPending)
	switch {
	case err != nil:
		return "", false, err
	case got.text(0) == "":
		return "", false, groups.ErrFull
	}
	return got.text(0), got.int(1) == 1, nil
}

func (s *store) Take(ctx context.Context, queue string, t groups.Terms) (b groups.Batch, state groups.State, err error) {
	if v, ok := s.quiet(ctx, queue, t); ok {
		if state = v.state; state.Next >= 0 {
			state.Next = time.Until(v.until)
		}
		return b, state, nil
	}
	r, err := s.run(ctx, queue, "take", micros(t.FlushAfter), t.ID, t.MaxRecords, t.MaxBytes, t.Ahead, micros(t.Again), t.FlushSize)
	if err != nil {
		return b, state, err
	}
	state = groups.State{Next: time.Duration(r.int(0)) * time.Microsecond, Records: r.int(1)}
	wait := state.Next
	if wait < 0 {
		wait = lookAgain
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.views, queue)
	if version := r.text(2); version != "" && s.views != nil {
		s.views[queue] = &view{state, t.FlushAfter, time.Now().Add(min(wait, lookAgain)), version, version}
	}
	return groups.Batch{ID: r.text(3), Turn: r.int(4), Group: r.text(5), Attempts: r.int(6), Losses: r.int(7)}, state, nil
}

func (s *store) Load(ctx context.Context, queue, batch string, turn int) (b groups.Batch, err error) {
	r, err := s.run(ctx, queue, "load", batch, turn, micros(lostAfter))
	if err != nil || len(r) == 0 {
		return b, err
	}
	b = groups.Batch{ID: batch, Turn: turn, Group: r.text(0), Attempts: r.int(1), Losses: r.int(2)}
	b.Records, err = records(b.Group, r.list(3), r.list(4))
	return b, err
}

// records parses records: 16 digits of the arrival, 8 digits of the length of the key, the key, and the payload.
func records(group string, ids, values reply) (all []groups.Record, err error) {
	for i := range ids {
		v := values.text(i)
		n, err := strconv.Atoi(v[min(len(v), 16):min(len(v), 24)])
		if err != nil || n < 0 || 24+n > len(v) {
			return nil, errReply
		}
		all = append(all, groups.Record{ID: ids.text(i), Group: group, Key: v[24 : 24+n], Payload: []byte(v[24+n:])})
	}
	return all, nil
}

func (s *store) Replace(ctx context.Context, queue string, b groups.Batch, parts []groups.Part, results []groups.Result, last error) error {
	defer s.changed.Store(true)    // also if it fails
	list, _ := json.Marshal(parts) // texts and numbers only
	args := []any{"replace", b.ID, b.Turn, textOf(last), list}
	places := make(map[string]int, len(b.Records))
	for i, r := range b.Records {
		places[r.ID] = i + 1
	}
	for _, r := range results {
		if r.Err != nil {
			args = append(args, places[r.ID], "f", textOf(r.Err))
		} else {
			args = append(args, places[r.ID], "d", r.Value)
		}
	}
	r, err := s.run(ctx, queue, args...)
	if err == nil && r.int(0) != 1 {
		return groups.ErrReplaced
	}
	return err
}

// textOf returns the text of an error, cut if it is long.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "?")
}

// each runs an operation for texts, some at once, and passes each reply to f. It repeats an operation as long as f asks for more.
func (s *store) each(ctx context.Context, queue string, texts []string, f func(some []string, r reply) (more bool), args ...any) error {
	for some := range slices.Chunk(texts, slice) {
		all := slices.Clone(args)
		for _, t := range some {
			all = append(all, t)
		}
		for more := true; more; {
			r, err := s.run(ctx, queue, all...)
			if err != nil {
				return err
			}
			more = f(some, r)
		}
	}
	return nil
}

func (s *store) Control(ctx context.Context, queue string, v groups.Verb, names ...string) (n int, err error) {
	defer s.changed.Store(true) // also if it fails
	if len(names) == 0 {
		if names, err = s.names(ctx, queue, -1); err != nil {
			return 0, err
		}
	}
	err = s.each(ctx, queue, names, func(_ []string, r reply) (more bool) {
		n += r.int(0)
		return r.int(1) > 0
	}, "control", string(v))
	return n, err
}

// names returns the names of the first n groups; of all, if n is -1.
func (s *store) names(ctx context.Context, queue string, n int64) ([]string, error) {
	return send(ctx, s.engine, func() ([]string, error) {
		return s.redis.ZRange(ctx, s.prefixOf(queue)+"all", 0, max(-1, n-1)).Result()
	})
}

func (s *store) Groups(ctx context.Context, queue string, flushAfter time.Duration, n int) (all []groups.Group, err error) {
	names, err := s.names(ctx, queue, int64(n))
	if err != nil {
		return nil, err
	}
	err = s.each(ctx, queue, names, func(_ []string, r reply) (more bool) {
		for i := range r {
			g := r.list(i)
			all = append(all, groups.Group{
				Name: g.text(0), Pending: g.int(1), InFlight: g.int(2), Failed: g.int(3), Paused: g.int(4) == 1,
				Oldest: g.time(5), Next: g.time(6), LastCall: g.time(7), LastError: g.text(8),
			})
		}
		return false
	}, "groups", micros(flushAfter))
	return all, err
}

func (s *store) Failed(ctx context.Context, queue, name string, from, n int) (all []groups.Failure, err error) {
	r, err := s.run(ctx, queue, "failed", name, from, from+n-1)
	if err != nil {
		return nil, err
	}
	found, err := records(name, r.list(0), r.list(1))
	for i, rec := range found {
		all = append(all, groups.Failure{Record: rec, Err: errors.New(r.list(2).text(i))})
	}
	return all, err
}

func (s *store) Results(ctx context.Context, queue string, ids []string) (map[string]groups.Result, error) {
	all := map[string]groups.Result{}
	err := s.each(ctx, queue, ids, func(some []string, r reply) (more bool) {
		for i, id := range some {
			switch v := r.text(i); cmp.Or(v, " ")[0] {
			case 'd':
				all[id] = groups.Result{ID: id, Value: []byte(v[1:])}
			case 'f':
				all[id] = groups.Result{ID: id, Err: errors.New(v[1:])}
			case 'w':
				all[id] = groups.Result{ID: id, Waits: true}
			}
		}
		return false
	}, "results")
	return all, err
}

// A reply is the result of a script. Its methods return the zero value for a part that is missing.
type reply []any

func (r reply) text(i int) string { return part[string](r, i) }
func (r reply) int(i int) int     { return int(part[int64](r, i)) }
func (r reply) list(i int) reply  { return part[[]any](r, i) }

func part[T any](r reply, i int) (v T) {
	if i < len(r) {
		v, _ = r[i].(T)
	}
	return v
}

func (r reply) time(i int) time.Time {
	if r.int(i) == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(r.int(i)))
}

// micros rounds up, so that nothing is early.
func micros(d time.Duration) int64 {
	return int64((min(d, math.MaxInt64-time.Microsecond) + time.Microsecond - 1) / time.Microsecond)
}
