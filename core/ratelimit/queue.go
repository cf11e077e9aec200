package ratelimit

import (
	"fmt"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/validate"
)

// QueueOrder is the order in which the waiters of a key are served.
type QueueOrder uint8

const (
	// OldestFirst serves waiters in the order of their calls, without overtaking: a waiter for
	// many permits delays all waiters after it. If the queue is full, a new waiter is refused.
	OldestFirst QueueOrder = iota
	// NewestFirst serves the newest waiter first, which has most of its time left. Use it for
	// users who wait for a page, when there are more than can be served. If the queue is full, a
	// new waiter replaces the oldest ones, which are refused.
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

// MarshalText returns the text of String. A value without a name is an error.
func (o QueueOrder) MarshalText() ([]byte, error) { return validate.MarshalText(o, NewestFirst) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (o *QueueOrder) UnmarshalText(text []byte) error {
	return validate.UnmarshalText(o, NewestFirst, text)
}

// A queue holds the waiters of one key. It takes no permits before a waiter is served, so a waiter
// that leaves changes nothing. It has no goroutine: the head owns a timer, and every operation on
// the key serves the waiters that are due.
type queue struct {
	order          QueueOrder
	oldest, newest *waiter
	permits        int64 // that the waiters wait for
	// since is the earliest moment at which the head could be served: when the waiter before it
	// was served, or when the key last changed. Waiters are served at these moments and not when a
	// timer fires, so late timers lose no permits. Limits that keep the times of takes are the
	// exception: their times must be the real ones.
	since int64
	// behind is the state of the key after all waiters are served, and the moment of it. If nil,
	// it must be computed again.
	behind   *keyed
	behindAt int64
}

// overtaken reports whether a new caller can take before the waiters.
func (q *queue) overtaken() bool { return q.oldest == nil || q.order == NewestFirst }

func (q *queue) first() *waiter {
	if q.order == NewestFirst {
		return q.newest
	}
	return q.oldest
}

// serve serves all waiters that are due, refuses the waiters that would be served too late, and
// sets the time of the new head.
func (q *queue) serve(k *keyed) {
	now := k.now
	for w := q.first(); w != nil; w = q.first() {
		if k.now = max(q.since, w.came); w.plan.Exact() {
			k.now = now
		}
		r := k.takeBy(w.plan, w.change, w.cost, min(now, w.deadline))
		at := k.now
		k.now = now
		switch next := at + int64(r.RetryAfter); {
		case r.Allowed:
			q.since = at
			stands, _ := k.decide(w.plan, &driver.Op{Change: w.change})
			stands.Granted, stands.Receipt, stands.Wait = r.Granted, r.Receipt, time.Duration(now-w.came)
			q.unlink(w, stands)
		case r.RetryAfter == Never || next > w.deadline:
			q.expel(k, w)
		default:
			if w.next != next {
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

// serve takes for a waiter.
func (k *keyed) serve(p *limits.Plan, change *driver.Change, cost int64) Result {
	k.load(change)
	r, changed := k.account.Serve(p, k.now, cost)
	k.changed = k.changed || changed
	return r
}

// takeBy takes at the earliest possible moment, if that is not later than latest, and sets k.now
// to it.
func (k *keyed) takeBy(p *limits.Plan, change *driver.Change, cost, latest int64) Result {
	r := k.serve(p, change, cost)
	for range 2 * MaxLimits { // the first RetryAfter can be too short for joined limits
		if r.Allowed || r.RetryAfter == Never || int64(r.RetryAfter) > latest-k.now {
			break
		}
		k.now += int64(r.RetryAfter)
		r = k.serve(p, change, cost)
	}
	return r
}

// leave removes w from the queue before it was served. The waiters after it are served from now on
// at the earliest.
func (q *queue) leave(k *keyed, w *waiter, r Result) {
	if q.first() == w {
		q.since = k.now
	}
	q.behind = nil
	q.unlink(w, r)
}

// expel refuses w. The result has the time at which w would be served if it came back at once.
func (q *queue) expel(k *keyed, w *waiter) {
	q.leave(k, w, Result{})
	w.result = q.refusal(k, w.plan, w.change, w.cost)
}

// unlink removes w from the queue, and sets its result.
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

// changed updates the queue after a change of the key by an operation outside the queue.
func (q *queue) changed(k *keyed) {
	if q.oldest == nil {
		return
	}
	q.since, q.behind = k.now, nil
	q.serve(k)
}

// delayed updates the queue after a change by which all waiters might wait longer. Waiters that
// would now be served too late are refused.
func (q *queue) delayed(k *keyed) {
	q.changed(k)
	if q.order == OldestFirst {
		q.foresee(k)
		q.serve(k)
	}
}

// apply does an operation on a key that has waiters.
func (q *queue) apply(k *keyed, p *limits.Plan, op *driver.Op) Result {
	q.serve(k)
	if !q.overtaken() && op.Kind != driver.Drain && op.Kind != driver.Refund && op.Kind != driver.Reset {
		r := q.refusal(k, p, op.Change, op.Cost)
		if op.Cost == 0 {
			r.Allowed, r.RetryAfter = true, 0
		}
		return r
	}
	r, changed := k.apply(p, op)
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
func (q *queue) refusal(k *keyed, p *limits.Plan, change *driver.Change, cost int64) Result {
	if q.overtaken() {
		return k.ask(p, change, cost)
	}
	if q.behind == nil {
		q.foresee(k)
	}
	b, now := q.behind, k.now
	b.now = max(now, q.behindAt)
	ahead := time.Duration(b.now - now)
	one := b.ask(p, change, 1)
	r := b.ask(p, change, max(cost, 1))
	r.Remaining, r.NextAfter, r.FullAfter = 0, ahead+one.RetryAfter, ahead+r.FullAfter
	if r.RetryAfter != Never {
		r.RetryAfter += ahead
	}
	return r
}

// foresee computes the state of the key after the queue, and refuses waiters that would be served
// too late.
func (q *queue) foresee(k *keyed) {
	if q.oldest != nil {
		k.load(q.oldest.change)
	}
	q.behind = k.copy()
	q.behindAt = q.since
	var late []*waiter
	for w := q.oldest; w != nil; w = w.newer {
		if !q.follow(w) {
			q.unlink(w, Result{})
			late = append(late, w)
		}
	}
	for _, w := range late {
		w.result = q.refusal(k, w.plan, w.change, w.cost)
	}
}

// follow adds w to the state after the queue, unless w would be served too late.
func (q *queue) follow(w *waiter) bool {
	b := q.behind
	b.now = max(q.behindAt, w.came)
	if r := b.takeBy(w.plan, w.change, w.cost, w.deadline); !r.Allowed {
		return false
	}
	q.behindAt = b.now
	return true
}

// ask is the result of a take whose permits are not available now; it takes nothing.
func (k *keyed) ask(p *limits.Plan, change *driver.Change, cost int64) Result {
	r, _ := k.decide(p, &driver.Op{Kind: driver.Check, Cost: cost, Change: change})
	r.Allowed = false
	return r
}
