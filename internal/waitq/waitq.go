// Package waitq is the queue of callers that wait for a mechanism. It has no lock, no
// goroutine and no clock of its own: the mechanism guards a Queue with its own lock, and
// every waiter runs [Await] in its own goroutine.
package waitq

import (
	"container/list"
	"context"
	"iter"
	"time"

	"github.com/gresil/gresil/core"
)

// A Queue holds waiters in the order of their arrival. T is the state that the
// mechanism keeps of each. The zero value is an empty queue, oldest first.
type Queue[T any] struct {
	all    list.List // of *Waiter[T]
	weight int64
}

// A Waiter is one place in a queue. All fields are guarded by the lock of the mechanism.
type Waiter[T any] struct {
	Value  T
	Weight int64
	queue  *Queue[T] // nil when the waiter has left
	place  *list.Element
	wake   chan struct{} // one place: something that concerns the waiter has changed
}

// Push adds a waiter at the end.
func (q *Queue[T]) Push(value T, weight int64) *Waiter[T] {
	w := &Waiter[T]{Value: value, Weight: weight, queue: q, wake: make(chan struct{}, 1)}
	w.place = q.all.PushBack(w)
	q.weight += weight
	return w
}

func waiter[T any](e *list.Element) *Waiter[T] {
	if e == nil {
		return nil
	}
	return e.Value.(*Waiter[T])
}

// First returns the waiter that arrived first, or nil.
func (q *Queue[T]) First() *Waiter[T] { return waiter[T](q.all.Front()) }

// Last returns the waiter that arrived last, or nil.
func (q *Queue[T]) Last() *Waiter[T] { return waiter[T](q.all.Back()) }

// Len returns the number of waiters.
func (q *Queue[T]) Len() int { return q.all.Len() }

// Weight returns the sum of their weights.
func (q *Queue[T]) Weight() int64 { return q.weight }

// All iterates over the waiters, the oldest first. The current one may leave meanwhile.
func (q *Queue[T]) All() iter.Seq[*Waiter[T]] {
	return func(yield func(*Waiter[T]) bool) {
		for e := q.all.Front(); e != nil; {
			next := e.Next()
			if !yield(waiter[T](e)) {
				return
			}
			e = next
		}
	}
}

// Leave removes the waiter, served or not, and wakes it. A second Leave does nothing.
func (w *Waiter[T]) Leave() {
	if w.queue != nil {
		w.queue.all.Remove(w.place)
		w.queue.weight -= w.Weight
		w.queue = nil
		w.Signal()
	}
}

// Waiting reports whether the waiter is in its queue.
func (w *Waiter[T]) Waiting() bool { return w.queue != nil }

// Signal makes the waiter look again. It never blocks.
func (w *Waiter[T]) Signal() {
	select {
	case w.wake <- struct{}{}:
	default: // a signal is pending
	}
}

// Await blocks until look reports that the wait is over, and returns nil. look is called
// at once, after each signal, and after the duration that it returned; it takes the lock
// of the mechanism itself. Await returns the cause of ctx if ctx ends first, and
// [core.ErrClosed] if done, which may be nil, is closed first. The waiter is then still in its
// queue, unless it left at that moment: the caller makes it leave.
func (w *Waiter[T]) Await(ctx context.Context, done <-chan struct{}, look func() (wait time.Duration, over bool)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, over := look()
		if over {
			return nil
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-done:
			return core.ErrClosed
		}
	}
}
