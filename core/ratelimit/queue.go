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
	t.sweep(t.now())
	hash := maphash.String(t.seed, key)
	return t.Plans.Wait(ctx, req, func(f func(*limits.Queue, *limits.Key), failed func(*limits.Queue, error)) error {
		return t.hold(hash, req.Limit, f, failed)
	})
}

// hold calls f with a key and its queue, or failed if the store is closed, with the shard locked.
func (t *table) hold(hash uint64, limit func() (driver.ID, *driver.Change), f func(*limits.Queue, *limits.Key), failed func(*limits.Queue, error)) error {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues.Hold(hash, func(q *limits.Queue) error {
		if t.store.closed.Load() {
			return limits.ErrClosed
		}
		k := limits.Key{Now: s.tick(t, t.now())}
		q.Rewritten(max(s.swept, s.marked))
		change := q.Change()
		if change == nil && limit != nil {
			_, change = limit()
		}
		s.load(t, hash, change, &k)
		f(q, &k)
		s.save(t, hash, &k)
		return nil
	}, failed)
}

// shut ends all waits.
func (t *table) shut() {
	t.each(func(s *shard) {
		for _, q := range s.queues {
			q.Close(limits.ErrClosed)
		}
		s.queues = nil
	})
}

// retime updates all waiters after a change of limits.
func (t *table) retime(c *driver.Change) {
	var keys []uint64
	t.each(func(s *shard) { keys = slices.AppendSeq(keys, maps.Keys(s.queues)) })
	for _, key := range keys {
		_ = t.hold(key, nil, func(q *limits.Queue, k *limits.Key) { q.Retime(k, t.Plans, c) }, nil)
	}
}
