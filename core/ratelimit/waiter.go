package ratelimit

import (
	"context"
	"hash/maphash"
	"math"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// A waiter waits for permits of a key. It is guarded by the lock of the shard.
type waiter struct {
	request  limits.Request
	table    *table
	key      uint64       // its hash
	plan     *limits.Plan // in force for it
	change   *driver.Change
	cost     int64
	came     int64
	deadline int64 // the latest moment at which it is served
	next     int64 // of the head: when permits become available
	done     bool  // it was served or refused, and has left the queue
	result   Result
	err      error // the store was closed

	older, newer *waiter
	wake         chan struct{} // of one place: something above has changed
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// Enter takes permits, refuses, or joins the queue; then the waiter is not nil, and
// the Wait of the result is an estimate.
func (t *table) Enter(key string, req limits.Request) (limits.Waiter, Result, error) {
	id, _ := req.Limit()
	if _, err := t.planFor(id, req.Cost); err != nil {
		return nil, Result{}, err
	}
	w, r, err := t.enter(maphash.String(t.seed, key), req)
	if w == nil {
		return nil, r, err
	}
	return w, r, nil
}

func (t *table) enter(key uint64, req limits.Request) (w *waiter, r Result, err error) {
	t.sweep(t.now())
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.store.closed.Load() {
		return nil, Result{}, ErrClosed
	}
	k := keyed{table: t, shard: s, hash: key, now: s.tick(t, t.now())}
	p, change := t.inForce(req)
	order := OldestFirst
	if req.NewestFirst {
		order = NewestFirst
	}
	q := s.queues[key]
	if q == nil {
		q = &queue{order: order}
	} else {
		q.serve(&k)
	}
	if q.overtaken() {
		var changed bool
		if r, changed = k.apply(p, &driver.Op{Kind: driver.Take, Cost: req.Cost, Change: change}); changed {
			q.changed(&k)
		}
		if r.Allowed || r.RetryAfter == Never {
			return nil, r, nil
		}
	}
	r = q.refusal(&k, p, change, req.Cost)
	room := req.Room(r.Limit)
	if r.RetryAfter == Never || r.RetryAfter > req.MaxWait || req.Cost > room || q.order == OldestFirst && q.permits+req.Cost > room {
		return nil, r, nil
	}
	for q.permits+req.Cost > room {
		q.expel(&k, q.oldest)
	}
	w = &waiter{
		request: req, table: t, key: key, plan: p, change: change, cost: req.Cost, came: k.now, deadline: k.now + int64(min(req.MaxWait, 1<<62)), next: math.MaxInt64,
		wake: make(chan struct{}, 1), older: q.newest,
	}
	if w.older != nil {
		if w.older.newer = w; q.order == NewestFirst {
			w.older.next = math.MaxInt64 // it is not the head any more
		}
	} else {
		q.oldest = w
	}
	q.newest = w
	q.permits += w.cost
	if q.behind != nil {
		q.follow(w)
	}
	if s.queues == nil {
		s.queues = map[uint64]*queue{}
	}
	s.queues[key] = q
	q.serve(&k) // sets its time
	r.Allowed, r.Wait, r.RetryAfter = true, r.RetryAfter, 0
	return w, r, nil
}

// inForce returns the limit that applies to a request now.
func (t *table) inForce(req limits.Request) (*limits.Plan, *driver.Change) {
	id, change := req.Limit()
	return t.plans.All()[id], change
}

// Await waits until w is served or refused. If ctx or done ends before, w leaves the queue, and
// the error is the reason.
func (w *waiter) Await(ctx context.Context, done <-chan struct{}) (Result, error) {
	t, key := w.table, w.key
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s := t.shard(key)
		s.mu.Lock()
		over, at := w.done, min(w.next, w.deadline)
		s.mu.Unlock()
		if over {
			return w.result, w.err
		}
		timer.Reset(time.Duration(at - t.now()))
		var err error
		select {
		case <-w.wake:
			continue
		case <-timer.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-done:
			err = ErrClosed
		}
		t.withQueue(key, func(q *queue, k *keyed) {
			switch {
			case w.done:
			case err != nil:
				q.leave(k, w, Result{})
			case k.now >= w.deadline:
				q.expel(k, w)
			}
		})
		if err != nil {
			return w.result, err
		}
	}
}

// Leave removes w from the queue if its goroutine ends early, for example by a panic. It only
// wakes the next waiter.
func (w *waiter) Leave() {
	t, key := w.table, w.key
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if w.done || q == nil {
		return
	}
	q.behind = nil
	q.unlink(w, Result{})
	if next := q.first(); next != nil {
		next.next = s.last
		next.signal()
	} else {
		delete(s.queues, key)
	}
}

// withQueue calls f with the queue of a key, if there is one.
func (t *table) withQueue(key uint64, f func(*queue, *keyed)) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if q == nil {
		return
	}
	k := keyed{table: t, shard: s, hash: key, now: s.tick(t, t.now())}
	q.serve(&k)
	f(q, &k)
	q.serve(&k)
}

// shut ends all waits.
func (t *table) shut() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, q := range s.queues {
			for q.oldest != nil {
				q.oldest.err = ErrClosed
				q.unlink(q.oldest, Result{})
			}
		}
		s.queues = nil
		s.mu.Unlock()
	}
}

// retimeKey updates the waiters of a key after a possible change of their limits.
func (t *table) retimeKey(key uint64) {
	t.withQueue(key, func(q *queue, k *keyed) {
		for w := q.oldest; w != nil; w = w.newer {
			w.plan, w.change = t.inForce(w.request)
		}
		q.delayed(k)
	})
}

// retime updates all waiters after a possible change of their limits.
func (t *table) retime() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		var keys []uint64
		for key := range s.queues {
			keys = append(keys, key)
		}
		s.mu.Unlock()
		for _, key := range keys {
			t.retimeKey(key)
		}
	}
}
