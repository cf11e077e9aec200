package limits

import (
	"math"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/waitq"
)

// A Queue holds the waiters of one key, guarded by the lock of the key. It takes no permits before
// a waiter is served, so a waiter that leaves changes nothing. It has no goroutine: the head owns a
// timer, and every operation on the key serves the waiters that are due.
type Queue struct {
	waiters waitq.Queue[waiting]
	// since is the earliest moment at which the head could be served: when the waiter before it
	// was served, or when the key last changed. Waiters are served at these moments and not when a
	// timer fires, so late timers lose no permits. Limits that keep the times of takes are the
	// exception: their times must be the real ones.
	since int64
	// tail is the state of the key after all waiters are served, and the moment of it. If nil, it
	// must be computed again.
	tail   *Key
	tailAt int64
	served []*waiter // since the queue was locked
}

type waiter = waitq.Waiter[waiting]

type waiting struct {
	request  *Request
	plan     *Plan // in force for it
	change   *driver.Change
	came     int64
	deadline int64 // the latest moment at which it is served
	next     int64 // of the head: when permits become available
	result   driver.Result
	err      error // the store was closed, or failed
}

// Queues are the queues of keys that have waiters.
type Queues[K comparable] map[K]*Queue

// Hold calls f with the queue of a key, and keeps it as long as it has waiters. If f returns an error,
// the key was not written: waiters that f has served get the error, and failed is called, if it is not
// nil.
func (all *Queues[K]) Hold(key K, f func(q *Queue) error, failed func(q *Queue, err error)) error {
	q := (*all)[key]
	if q == nil {
		q = new(Queue)
	}
	err := f(q)
	if err != nil {
		q.tail = nil
		for _, w := range q.served {
			w.Value.result, w.Value.err = driver.Result{}, err
		}
		if failed != nil {
			failed(q, err)
		}
	}
	clear(q.served)
	q.served = q.served[:0]
	switch {
	case q.Empty():
		delete(*all, key)
	case *all == nil:
		*all = Queues[K]{key: q}
	default:
		(*all)[key] = q
	}
	return err
}

// Empty reports whether the queue has no waiter.
func (q *Queue) Empty() bool { return q.waiters.Len() == 0 }

// Change returns the last change of the limit that the waiters know, or nil.
func (q *Queue) Change() *driver.Change {
	if w := q.waiters.Oldest(); w != nil {
		return w.Value.change
	}
	return nil
}

// Rewritten says that the key was written anew, or dropped, as of a time: how it stood earlier cannot be read.
func (q *Queue) Rewritten(at int64) {
	if at > q.since {
		q.since, q.tail = at, nil
	}
}

// Close ends all waits with an error.
func (q *Queue) Close(err error) {
	for w := range q.waiters.All() {
		w.Value.err = err
		w.Leave()
	}
}

// overtaken reports whether a new caller can take before the waiters.
func (q *Queue) overtaken() bool { return q.Empty() || q.waiters.NewestFirst }

// serve serves all waiters that are due, refuses the waiters that would be served too late, and
// sets the time of the new head.
func (q *Queue) serve(k *Key) {
	now := k.Now
	q.since = min(q.since, now)
	for w := q.waiters.First(); w != nil; w = q.waiters.First() {
		v := &w.Value
		if k.Now = max(q.since, v.came); v.plan.Exact() {
			k.Now = now
		}
		r := k.serve(v.plan, w.Weight, min(now, v.deadline))
		at := k.Now
		k.Now = now
		switch next := at + int64(r.RetryAfter); {
		case r.Allowed:
			q.since = at
			stands, _ := k.Apply(v.plan, &driver.Op{})
			stands.Granted, stands.Receipt, stands.Wait = r.Granted, r.Receipt, time.Duration(now-v.came)
			v.result = stands
			q.served = append(q.served, w)
			w.Leave()
		case r.RetryAfter == driver.Never || next > v.deadline:
			q.expel(k, w)
		default:
			if v.next != next {
				v.next = next
				w.Signal()
			}
			return
		}
	}
	q.tail = nil
}

// leave removes w from the queue before it was served. The waiters after it are served from now on
// at the earliest.
func (q *Queue) leave(k *Key, w *waiter) {
	if q.waiters.First() == w {
		q.since = k.Now
	}
	q.tail = nil
	w.Leave()
}

// withdraw removes w from the queue with an error, if w is there, without the key.
func (q *Queue) withdraw(w *waiter, err error) {
	if w.Waiting() {
		w.Value.err = err
		w.Leave()
		q.recheck()
	}
}

// recheck wakes the head, which then serves the waiters from that moment on. It is for changes that are
// made without the key.
func (q *Queue) recheck() {
	q.since, q.tail = math.MaxInt64, nil
	if head := q.waiters.First(); head != nil {
		head.Signal()
	}
}

// expel refuses w. The result has the time at which w would be served if it came back at once.
func (q *Queue) expel(k *Key, w *waiter) {
	q.leave(k, w)
	w.Value.result = q.refusal(k, w.Value.plan, w.Weight)
}

// changed updates the queue after a change of the key by an operation outside the queue.
func (q *Queue) changed(k *Key) {
	if q.Empty() {
		return
	}
	q.since, q.tail = k.Now, nil
	q.serve(k)
}

// delayed updates the queue after a change by which all waiters might wait longer. Waiters that
// would now be served too late are refused.
func (q *Queue) delayed(k *Key) {
	q.changed(k)
	if !q.waiters.NewestFirst {
		q.rehearse(k)
		q.serve(k)
	}
}

// Retime carries the key over by a change of limits, and updates the waiters. Those that are due are served
// before, under the limits before it.
func (q *Queue) Retime(k *Key, plans *Plans, c *driver.Change) {
	q.serve(k)
	k.Change(c, plans.All(), k.Now)
	k.Changed = true
	q.replan(plans)
	q.delayed(k)
}

func (q *Queue) replan(plans *Plans) {
	for w := range q.waiters.All() {
		w.Value.plan, w.Value.change = plans.inForce(w.Value.request)
	}
}

// RetimeLater is Retime without the key: the head does it.
func (q *Queue) RetimeLater(plans *Plans) {
	q.replan(plans)
	q.recheck()
}

// Apply does an operation on a key that has waiters.
func (q *Queue) Apply(k *Key, p *Plan, op *driver.Op) driver.Result {
	q.serve(k)
	if !q.overtaken() && op.Kind != driver.Drain && op.Kind != driver.Refund && op.Kind != driver.Reset {
		r := q.refusal(k, p, op.Cost)
		if op.Cost == 0 {
			r.Allowed, r.RetryAfter = true, 0
		}
		return r
	}
	r, changed := k.Apply(p, op)
	switch {
	case changed && op.Kind == driver.Drain:
		q.delayed(k)
	case changed:
		q.changed(k)
	}
	return r
}

// refusal is the result of a take that cannot be served now: its RetryAfter is the time until it
// could be served after the waiters.
func (q *Queue) refusal(k *Key, p *Plan, cost int64) driver.Result {
	if q.overtaken() {
		return k.check(p, cost)
	}
	if q.tail == nil {
		q.rehearse(k)
	}
	tail := q.tail
	tail.Now = max(k.Now, q.tailAt)
	ahead := time.Duration(tail.Now - k.Now)
	one := tail.check(p, 1)
	r := tail.check(p, max(cost, 1))
	r.Remaining, r.NextAfter, r.FullAfter = 0, ahead+one.RetryAfter, ahead+r.FullAfter
	r.Receipt.At = k.Now
	if r.RetryAfter != driver.Never {
		r.RetryAfter += ahead
	}
	return r
}

// rehearse computes the state of the key after the queue, and refuses waiters that would be served
// too late. After serve the head is not one of them: the time that serve found for it is exact.
func (q *Queue) rehearse(k *Key) {
	q.tail, q.tailAt = k.copy(), q.since
	var late []*waiter
	for w := range q.waiters.All() {
		if !q.follow(w) {
			w.Leave()
			late = append(late, w)
		}
	}
	for _, w := range late {
		w.Value.result = q.refusal(k, w.Value.plan, w.Weight)
	}
}

// follow adds w to the state after the queue, unless w would be served too late.
func (q *Queue) follow(w *waiter) bool {
	tail := q.tail
	tail.Now = max(q.tailAt, w.Value.came)
	if r := tail.serve(w.Value.plan, w.Weight, w.Value.deadline); !r.Allowed {
		return false
	}
	q.tailAt = tail.Now
	return true
}

// enter takes permits, refuses, or joins the queue; then the waiter is not nil, and the Wait of the
// result is an estimate.
func (q *Queue) enter(k *Key, p *Plan, change *driver.Change, req *Request) (w *waiter, r driver.Result) {
	if q.Empty() {
		q.waiters.NewestFirst = req.NewestFirst
	}
	q.serve(k)
	if q.overtaken() {
		var changed bool
		if r, changed = k.Apply(p, &driver.Op{Kind: driver.Take, Cost: req.Cost}); changed {
			q.changed(k)
		}
		if r.Allowed || r.RetryAfter == driver.Never {
			return nil, r
		}
	}
	r = q.refusal(k, p, req.Cost)
	room := req.Room(r.Limit)
	if r.RetryAfter == driver.Never || r.RetryAfter > req.MaxWait || req.Cost > room || !q.waiters.NewestFirst && q.waiters.Weight()+req.Cost > room {
		return nil, r
	}
	for q.waiters.Weight()+req.Cost > room {
		q.expel(k, q.waiters.Oldest())
	}
	if head := q.waiters.First(); head != nil && q.waiters.NewestFirst {
		head.Value.next = math.MaxInt64 // it is not the head any more
	}
	w = q.waiters.Push(waiting{request: req, plan: p, change: change, came: k.Now, deadline: k.Now + int64(min(req.MaxWait, 1<<62)), next: math.MaxInt64}, req.Cost)
	if q.tail != nil {
		q.follow(w)
	}
	q.serve(k) // sets its time
	r.Allowed, r.Wait, r.RetryAfter = true, r.RetryAfter, 0
	return w, r
}
