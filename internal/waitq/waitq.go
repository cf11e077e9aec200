// Package waitq is the queue of callers that wait for a mechanism. It has no lock, no
// goroutine and no clock of its own: the mechanism guards a Queue with its own lock, and
// every waiter runs [Await] in its own goroutine.
package waitq

import (
	"context"
	"errors"
	"iter"
	"time"
)

// ErrClosed is the error of [Waiter.Await] when done is closed.
var ErrClosed = errors.New("closed")

// A Queue holds waiters in the order of their arrival. T is the state that the
// mechanism keeps of each. The zero value is an empty queue, oldest first.
type Queue[T any] struct {
	oldest, newest *Waiter[T]
	weight         int64
	length         int
}

// A Waiter is one place in a queue. All fields are guarded by the lock of the mechanism.
type Waiter[T any] struct {
	Value        T
	Weight       int64
	queue        *Queue[T] // nil when the waiter has left
	older, newer *Waiter[T]
	wake         chan struct{} // one place: something that concerns the waiter has changed
}

// Push adds a waiter at the end.
func (q *Queue[T]) Push(value T, weight int64) *Waiter[T] {
	w := &Waiter[T]{Value: value, Weight: weight, queue: q, older: q.newest, wake: make(chan struct{}, 1)}
	if w.older != nil {
		w.older.newer = w
	} else {
		q.oldest = w
	}
	q.newest = w
	q.weight += weight
	q.length++
	return w
}

// First returns the waiter that arrived first, or nil.
func (q *Queue[T]) First() *Waiter[T] { return q.oldest }

// Last returns the waiter that arrived last, or nil.
func (q *Queue[T]) Last() *Waiter[T] { return q.newest }

// Len returns the number of waiters.
func (q *Queue[T]) Len() int { return q.length }

// Weight returns the sum of their weights.
func (q *Queue[T]) Weight() int64 { return q.weight }

// All iterates over the waiters, the oldest first. The current one may leave meanwhile.
func (q *Queue[T]) All() iter.Seq[*Waiter[T]] {
	return func(yield func(*Waiter[T]) bool) {
		for w := q.oldest; w != nil; {
			newer := w.newer
			if !yield(w) {
				return
			}
			w = newer
		}
	}
}

// Leave removes the waiter, served or not, and wakes it. A second Leave does nothing.
func (w *Waiter[T]) Leave() {
	q := w.queue
	if q == nil {
		return
	}
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
	q.weight -= w.Weight
	q.length--
	w.queue, w.older, w.newer = nil, nil, nil
	w.Signal()
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
// [ErrClosed] if done, which may be nil, is closed first. The waiter is then still in its
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
			return ErrClosed
		}
	}
}
