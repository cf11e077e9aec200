// Package announce tells of changes in the order in which they were made,
// without a lock held while it tells.
package announce

import "sync"

// A Queue holds what is still to be told. The zero value is ready to use.
type Queue[T any] struct {
	mu      sync.Mutex
	pending []T
	busy    bool
}

// Append adds what happened. Call it under the lock that orders the changes.
func (q *Queue[T]) Append(e T) {
	q.mu.Lock()
	q.pending = append(q.pending, e)
	q.mu.Unlock()
}

// Drain tells of all that is pending, one at a time. Call it after the lock is
// released. While one goroutine drains, another returns at once: the first tells
// what the second appended. So a tell that calls back only appends. A tell that
// panics or ends its goroutine does not stop the telling of the rest.
func (q *Queue[T]) Drain(tell func(T)) {
	q.mu.Lock()
	if q.busy || len(q.pending) == 0 {
		q.mu.Unlock()
		return
	}
	q.busy = true
	finished := false
	defer func() {
		if !finished { // tell did not return
			q.mu.Lock()
			q.busy = false
			q.mu.Unlock()
			q.Drain(tell)
		}
	}()
	for len(q.pending) > 0 {
		e := q.pending[0]
		q.pending = q.pending[1:]
		q.mu.Unlock()
		tell(e)
		q.mu.Lock()
	}
	q.pending, q.busy, finished = nil, false, true
	q.mu.Unlock()
}
