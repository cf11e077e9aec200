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
// If Update fails for a waiter, the waiter leaves the queue with the error, and without permits.
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
	err = t.hold(ctx, key, op.Change, func(q *limits.Queue, k *limits.Key) { r = q.Apply(k, p, &op) }, nil)
	return r, err
}

// Wait takes permits, refuses, or waits in the queue of a key.
func (t *queueTable) Wait(ctx context.Context, key string, req *limits.Request) (driver.Result, error) {
	return t.Plans.Wait(ctx, req, func(f func(*limits.Queue, *limits.Key), failed func(*limits.Queue, error)) error {
		_, change := req.Limit()
		return t.hold(context.WithoutCancel(ctx), key, change, f, failed)
	})
}

// hold calls f with a key and its queue or, if the values fail, failed with the queue.
func (t *queueTable) hold(ctx context.Context, key string, change *driver.Change, f func(*limits.Queue, *limits.Key), failed func(*limits.Queue, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues.Hold(key, func(q *limits.Queue) error {
		return t.update(ctx, key, cmp.Or(q.Change(), change), func(k *limits.Key) {
			if len(k.Counts()) == 0 {
				q.Rewritten(k.Now) // no usage is left, and when it recovered is not known
			}
			f(q, k)
		})
	}, failed)
}

// Changed carries the keys with waiters over, and updates the waiters.
func (t *queueTable) Changed(c *driver.Change) {
	t.mu.Lock()
	keys := slices.Collect(maps.Keys(t.queues))
	t.mu.Unlock()
	for _, key := range keys {
		t.ChangedKey(key, nil, c)
	}
}

// ChangedKey carries a key over, and updates its waiters.
func (t *queueTable) ChangedKey(key string, of, c *driver.Change) {
	_ = t.hold(context.Background(), key, of, func(q *limits.Queue, k *limits.Key) {
		q.Retime(k, t.Plans, c)
	}, func(q *limits.Queue, _ error) { q.RetimeLater(t.Plans) })
}
