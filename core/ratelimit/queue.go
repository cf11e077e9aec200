package ratelimit

import (
	"fmt"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
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

// takeBy takes as soon as it can be, if not later than a time, and sets k.now to when
// that was.
func (k *keyed) takeBy(p *driver.Plan, change *driver.Change, cost, latest int64) Result {
	op := driver.Op{Kind: driver.Take, Cost: cost, Change: change, Queued: true}
	r, _ := k.decide(p, &op)
	for range 2 * MaxLimits { // the first may not know yet what joined limits need together
		if r.Allowed || r.RetryAfter == Never || int64(r.RetryAfter) > latest-k.now {
			break
		}
		k.now += int64(r.RetryAfter)
		r, _ = k.decide(p, &op)
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
	w.result = q.refusal(k, w.plan, w.change, w.cost)
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
func (q *queue) apply(k *keyed, p *driver.Plan, op *driver.Op) Result {
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

// refusal is the answer to one who cannot be served now: when it can, behind those
// who wait.
func (q *queue) refusal(k *keyed, p *driver.Plan, change *driver.Change, cost int64) Result {
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

// foresee finds out what will be behind the queue, and refuses those who would be
// served too late.
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

// follow puts w into what will be behind the queue, unless that will be too late.
func (q *queue) follow(w *waiter) bool {
	b := q.behind
	b.now = max(q.behindAt, w.came)
	if r := b.takeBy(w.plan, w.change, w.cost, w.deadline); !r.Allowed {
		return false
	}
	q.behindAt = b.now
	return true
}

// ask is the answer to a take of what is not to be had now; nothing is taken.
func (k *keyed) ask(p *driver.Plan, change *driver.Change, cost int64) Result {
	r, _ := k.decide(p, &driver.Op{Kind: driver.Check, Cost: cost, Change: change})
	r.Allowed = false
	return r
}
