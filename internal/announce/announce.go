// Package announce delivers changes in the order in which they were made, with no
// lock held during a delivery.
package announce

import "sync"

// A Queue holds changes that are not delivered yet. The zero value is ready to use.
type Queue[T any] struct {
	mu      sync.Mutex
	pending []T
	busy    bool
}

// Append adds a change. Call it under the lock that orders the changes.
func (q *Queue[T]) Append(e T) {
	q.mu.Lock()
	q.pending = append(q.pending, e)
	q.mu.Unlock()
}

// Drain delivers all pending changes, one at a time. Call it after the lock is
// released. While one goroutine drains, another returns at once, and the first delivers
// the changes of the second. So a deliver that calls back only appends. If deliver
// panics or ends its goroutine, the other changes are delivered all the same.
func (q *Queue[T]) Drain(deliver func(T)) {
	q.mu.Lock()
	if q.busy || len(q.pending) == 0 {
		q.mu.Unlock()
		return
	}
	q.busy = true
	finished := false
	defer func() {
		if !finished { // deliver did not return
			q.mu.Lock()
			q.busy = false
			q.mu.Unlock()
			q.Drain(deliver)
		}
	}()
	for len(q.pending) > 0 {
		e := q.pending[0]
		q.pending = q.pending[1:]
		q.mu.Unlock()
		deliver(e)
		q.mu.Lock()
	}
	q.pending, q.busy, finished = nil, false, true
	q.mu.Unlock()
}
