package ratelimit

import (
	"context"
	"fmt"
	"math"
	"time"
)

// QueueOrder is the order in which those who wait for a key are served.
type QueueOrder uint8

const (
	// OldestFirst serves them as they came, and nobody overtakes: one who waits for
	// many permits holds up all behind. A newcomer that finds the queue full is
	// refused.
	OldestFirst QueueOrder = iota
	// NewestFirst serves the newest first, which has most of its time left: right
	// for users who wait for a page, when there are more than can be served. A
	// newcomer that finds the queue full takes the place of the oldest, which are
	// refused.
	NewestFirst
)

// String returns "oldest_first" or "newest_first".
func (o QueueOrder) String() string {
	switch o {
	case OldestFirst:
		return "oldest_first"
	case NewestFirst:
		return "newest_first"
	}
	return fmt.Sprintf("QueueOrder(%d)", uint8(o))
}

// A waiter waits for permits of a key. It is guarded by the lock of the shard.
type waiter struct {
	policy   func() (*plan, []Past) // that it should be held to
	plan     *plan                  // that it is held to
	past     []Past
	cost     int64
	came     int64
	deadline int64 // it is not served later
	next     int64 // of the first in the queue: when there will be permits for it
	rest     int64 // it is not woken before
	done     bool  // it was served or refused, and is not in the queue any more
	result   Result
	err      error // the store was closed

	older, newer *waiter
	wake         chan struct{} // of one place: something above has changed
}

// A queue is those who wait for one key. Nothing is taken for them before their
// time: who leaves has changed nothing. Nobody works for the queue but those in it:
// the first has a timer, and whoever uses the key serves all whose time has come.
type queue struct {
	order          QueueOrder
	oldest, newest *waiter
	permits        int64 // that they wait for
	// since is when the first of the queue could be served at the earliest: when
	// the one before it was, or the key was changed last. Serving goes by these
	// times and not by when a timer fired, so that nothing is lost to late timers; but
	// for limits that keep the times of takes, which have to be the true ones.
	since int64
	// behind is the key as it will be when all in the queue were served, at a time.
	// nil, it has to be found out again.
	behind   *keyed
	behindAt int64
}

// A request is what one who wants to wait asks for.
type request struct {
	policy func() (*plan, []Past)
	cost   int64 // at least 1
	most   time.Duration
	order  QueueOrder
	room   func(capacity int64) int64 // how many permits may wait
}

// enter takes permits, refuses, or joins the queue; then the waiter is not nil, and
// the Wait of the result is an estimate.
func (t *table) enter(key uint64, req request) (w *waiter, r Result, err error) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.store.closed.Load() {
		return nil, Result{}, ErrClosed
	}
	k := keyed{table: t, shard: s, hash: key, now: s.tick(t, t.now())}
	p, past := req.policy()
	q := s.queues[key]
	if q == nil {
		q = &queue{order: req.order}
	} else {
		q.serve(&k)
	}
	if q.overtaken() {
		var changed bool
		if r, changed = k.apply(p, Op{Kind: Take, Cost: req.cost, Past: past}); changed {
			q.changed(&k)
		}
		if r.Allowed || r.RetryAfter == Never {
			return nil, r, nil
		}
	}
	r = q.refusal(&k, p, past, req.cost)
	room := req.room(r.Limit)
	if r.RetryAfter == Never || r.RetryAfter > req.most || req.cost > room || q.order == OldestFirst && q.permits+req.cost > room {
		return nil, r, nil
	}
	for q.permits+req.cost > room {
		q.expel(&k, q.oldest)
	}
	w = &waiter{
		policy: req.policy, plan: p, past: past, cost: req.cost, came: k.now, deadline: k.now + int64(min(req.most, 1<<62)), next: math.MaxInt64,
		wake: make(chan struct{}, 1), older: q.newest,
	}
	if w.older != nil {
		if w.older.newer = w; q.order == NewestFirst {
			w.older.next = math.MaxInt64 // it is not the first any more
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

// overtaken tells whether a newcomer may take before those who wait.
func (q *queue) overtaken() bool { return q.oldest == nil || q.order == NewestFirst }

func (q *queue) first() *waiter {
	if q.order == NewestFirst {
		return q.newest
	}
	return q.oldest
}

// serve serves all whose time has come, refuses those whose time will be too late,
// and sets the time of the first that is left.
func (q *queue) serve(k *keyed) {
	now := k.now
	for w := q.first(); w != nil; w = q.first() {
		if k.now = max(q.since, w.came); w.plan.exact() {
			k.now = now
		}
		r := k.takeBy(w.plan, w.past, w.cost, min(now, w.deadline))
		at := k.now
		k.now = now
		switch next := at + int64(r.RetryAfter); {
		case r.Allowed:
			q.since = at
			stands, _ := k.decide(w.plan, Op{Past: w.past})
			stands.Granted, stands.Receipt, stands.Wait = r.Granted, r.Receipt, time.Duration(now-w.came)
			q.unlink(w, stands)
		case r.RetryAfter == Never || next > w.deadline:
			q.expel(k, w)
		default:
			if w.next <= now { // an algorithm broke its word: do not spin
				w.rest = now + int64(time.Millisecond)
			}
			if next = max(next, w.rest); w.next != next {
				w.next = next
				w.signal()
			}
			k.flush()
			return
		}
	}
	k.flush()
	q.behind = nil
	delete(k.shard.queues, k.hash)
}

// takeBy takes as soon as it can be, if not later than a time, and sets k.now to when
// that was. A limit that gives way to another may need more than one step.
func (k *keyed) takeBy(p *plan, past []Past, cost, latest int64) Result {
	r, _ := k.decide(p, Op{Kind: Take, Cost: cost, Past: past, queued: true})
	for range 2 * MaxLimits {
		if r.Allowed || r.RetryAfter == Never || int64(r.RetryAfter) > latest-k.now {
			break
		}
		k.now += int64(r.RetryAfter)
		r, _ = k.decide(p, Op{Kind: Take, Cost: cost, Past: past, queued: true})
	}
	return r
}

// leave takes w out of the queue before it was served. Those behind it are served
// from now on at the earliest.
func (q *queue) leave(k *keyed, w *waiter, r Result) {
	if q.first() == w {
		q.since = k.now
	}
	q.behind = nil
	q.unlink(w, r)
}

// expel refuses w, and tells when it would be served if it came back at once.
func (q *queue) expel(k *keyed, w *waiter) {
	q.leave(k, w, Result{})
	w.result = q.refusal(k, w.plan, w.past, w.cost)
}

// unlink takes w out of the queue, with its result.
func (q *queue) unlink(w *waiter, r Result) {
	w.done, w.result = true, r
	if w.older != nil {
		w.older.newer = w.newer
	} else {
		q.oldest = w.newer
	}
	if w.newer != nil {
		w.newer.older = w.older
	} else {
		q.newest = w.older
	}
	q.permits -= w.cost
	w.signal()
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is told already
	}
}

// changed takes notice that the key was changed by others than those in the queue.
func (q *queue) changed(k *keyed) {
	if q.oldest == nil {
		return
	}
	q.since, q.behind = k.now, nil
	q.serve(k)
}

// delayed takes notice that all may have to wait longer. Those who would now wait
// too long are refused.
func (q *queue) delayed(k *keyed) {
	q.changed(k)
	if q.order == OldestFirst {
		q.foresee(k)
		q.serve(k)
	}
}

// apply does an operation on a key that some wait for.
func (q *queue) apply(k *keyed, p *plan, op Op) Result {
	q.serve(k)
	if !q.overtaken() && op.Kind != Drain && op.Kind != Refund && op.Kind != Reset {
		r := q.refusal(k, p, op.Past, op.Cost)
		if op.Cost == 0 {
			r.Allowed, r.RetryAfter = true, 0
		}
		return r
	}
	r, changed := k.apply(p, op)
	switch {
	case changed && op.Kind == Drain:
		q.delayed(k)
	case changed:
		q.changed(k)
	}
	return r
}

// refusal is the answer to one who cannot be served now: when it can, behind those
// who wait.
func (q *queue) refusal(k *keyed, p *plan, past []Past, cost int64) Result {
	if q.overtaken() {
		return k.ask(p, past, cost)
	}
	if q.behind == nil {
		q.foresee(k)
	}
	b, now := q.behind, k.now
	b.now = max(now, q.behindAt)
	ahead := time.Duration(b.now - now)
	one := b.ask(p, past, 1)
	r := b.ask(p, past, max(cost, 1))
	r.Remaining, r.NextAfter, r.FullAfter = 0, ahead+one.RetryAfter, ahead+r.FullAfter
	if r.RetryAfter != Never {
		r.RetryAfter += ahead
	}
	return r
}

// foresee finds out what will be behind the queue, and refuses those who would be
// served too late.
func (q *queue) foresee(k *keyed) {
	q.behind = &keyed{table: k.table, shard: k.shard, hash: k.hash, now: k.now, dry: true}
	q.behindAt = q.since
	var late []*waiter
	for w := q.oldest; w != nil; w = w.newer {
		if !q.follow(w) {
			q.unlink(w, Result{})
			late = append(late, w)
		}
	}
	for _, w := range late {
		w.result = q.refusal(k, w.plan, w.past, w.cost)
	}
}

// follow puts w into what will be behind the queue, unless that will be too late.
func (q *queue) follow(w *waiter) bool {
	b := q.behind
	b.now = max(q.behindAt, w.came)
	if r := b.takeBy(w.plan, w.past, w.cost, w.deadline); !r.Allowed {
		return false
	}
	q.behindAt = b.now
	return true
}

// ask is the answer to a take of what is not to be had now; nothing is taken.
func (k *keyed) ask(p *plan, past []Past, cost int64) Result {
	r, _ := k.decide(p, Op{Kind: Check, Cost: cost, Past: past})
	r.Allowed = false
	return r
}

// await waits for w to be served or refused. If ctx or done ends before, it is out
// of the queue, and the error is why.
func (t *table) await(ctx context.Context, done <-chan struct{}, key uint64, w *waiter) (Result, error) {
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

// abandon takes w out of the queue if its goroutine ends before its time, as by a
// panic. Nothing else is done: the next in the queue is woken for it.
func (t *table) abandon(key uint64, w *waiter) {
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

// withQueue does something about the queue of a key, if there is one.
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

// retimeKey takes notice that those who wait for a key may be held to other limits
// now.
func (t *table) retimeKey(key uint64) {
	t.withQueue(key, func(q *queue, k *keyed) {
		for w := q.oldest; w != nil; w = w.newer {
			w.plan, w.past = w.policy()
		}
		q.delayed(k)
	})
}

// retime takes notice that those who wait may be held to other limits now.
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
