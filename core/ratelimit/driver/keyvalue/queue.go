package keyvalue

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// QueueTable makes the table of a limiter whose waiters form a queue for each key, as those of a
// store in memory do. The values must be those of one process, and Update calls its function once.
func QueueTable(v Values) driver.Table { return &queueTable{table: newTable(v)} }

type queueTable struct {
	*table

	mu     sync.Mutex // held during every update
	queues limits.Queues[string]
}

// Apply does one operation on one key.
func (t *queueTable) Apply(ctx context.Context, key string, id driver.ID, op driver.Op) (r driver.Result, err error) {
	p, err := t.For(id, op.Cost)
	if err != nil {
		return r, err
	}
	err = t.hold(ctx, key, op.Change, func(q *limits.Queue, k *limits.Key) { r = q.Apply(k, p, &op) })
	return r, err
}

// Wait takes permits, refuses, or waits in the queue of a key.
func (t *queueTable) Wait(ctx context.Context, key string, req *limits.Request) (driver.Result, error) {
	id, _ := req.Limit()
	if _, err := t.For(id, req.Cost); err != nil {
		return driver.Result{}, err
	}
	return t.Plans.Wait(ctx, req, func(f func(*limits.Queue, *limits.Key)) error {
		_, change := req.Limit()
		return t.hold(context.WithoutCancel(ctx), key, change, f)
	})
}

// hold calls f with a key and its queue.
func (t *queueTable) hold(ctx context.Context, key string, change *driver.Change, f func(*limits.Queue, *limits.Key)) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queues.Hold(key, func(q *limits.Queue) {
		err = t.update(ctx, key, cmp.Or(q.Change(), change), func(k *limits.Key) { f(q, k) })
	})
	return err
}

// Changed updates the waiters of all keys.
func (t *queueTable) Changed(*driver.Change) {
	t.mu.Lock()
	keys := slices.Collect(maps.Keys(t.queues))
	t.mu.Unlock()
	for _, key := range keys {
		_ = t.hold(context.Background(), key, nil, func(q *limits.Queue, k *limits.Key) { q.Retime(k, t.Plans) })
	}
}

// ChangedKey carries a key over, and updates its waiters.
func (t *queueTable) ChangedKey(key string, of, c *driver.Change) {
	_ = t.hold(context.Background(), key, of, func(q *limits.Queue, k *limits.Key) {
		k.Change(c, t.All(), k.Now)
		k.Changed = true
		q.Retime(k, t.Plans)
	})
}
