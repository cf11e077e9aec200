package ratelimit

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// Wait takes permits, refuses, or waits in the queue of a key.
func (t *table) Wait(ctx context.Context, key string, req *limits.Request) (Result, error) {
	id, _ := req.Limit()
	if _, err := t.planFor(id, req.Cost); err != nil {
		return Result{}, err
	}
	t.sweep(t.now())
	hash := maphash.String(t.seed, key)
	return t.Plans.Wait(ctx, req, func(f func(*limits.Queue, *limits.Key)) error { return t.hold(hash, req.Limit, f) })
}

// hold calls f with a key and its queue, with the shard locked.
func (t *table) hold(hash uint64, limit func() (driver.ID, *driver.Change), f func(*limits.Queue, *limits.Key)) error {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.store.closed.Load() {
		return ErrClosed
	}
	k := limits.Key{Now: s.tick(t, t.now())}
	s.queues.Hold(hash, func(q *limits.Queue) {
		change := q.Change()
		if change == nil && limit != nil {
			_, change = limit()
		}
		s.load(t, hash, change, &k)
		f(q, &k)
		s.save(t, hash, &k)
	})
	return nil
}

// shut ends all waits.
func (t *table) shut() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, q := range s.queues {
			q.Close(ErrClosed)
		}
		s.queues = nil
		s.mu.Unlock()
	}
}

// retime updates all waiters after a possible change of their limits.
func (t *table) retime() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		keys := slices.Collect(maps.Keys(s.queues))
		s.mu.Unlock()
		for _, key := range keys {
			_ = t.hold(key, nil, func(q *limits.Queue, k *limits.Key) { q.Retime(k, t.Plans) })
		}
	}
}
