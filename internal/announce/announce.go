// Package announce delivers changes in the order in which they were made, with no
// lock held during a delivery.
package announce

import "sync"

// A Queue holds functions that tell of changes, and that are not called yet. The zero value is ready to use.
type Queue struct {
	mu      sync.Mutex
	pending []func()
	busy    bool
}

// Append adds a change. Call it under the lock that orders the changes.
func (q *Queue) Append(tell func()) {
	q.mu.Lock()
	q.pending = append(q.pending, tell)
	q.mu.Unlock()
}

// Drain delivers all pending changes, one at a time. Call it after the lock is
// released. While one goroutine drains, another returns at once, and the first delivers
// the changes of the second. So a function that calls back only appends. If one
// panics or ends its goroutine, the other changes are delivered all the same.
func (q *Queue) Drain() {
	q.mu.Lock()
	if q.busy || len(q.pending) == 0 {
		q.mu.Unlock()
		return
	}
	q.busy = true
	finished := false
	defer func() {
		if !finished { // a function did not return
			q.mu.Lock()
			q.busy = false
			q.mu.Unlock()
			q.Drain()
		}
	}()
	for len(q.pending) > 0 {
		tell := q.pending[0]
		q.pending = q.pending[1:]
		q.mu.Unlock()
		tell()
		q.mu.Lock()
	}
	q.pending, q.busy, finished = nil, false, true
	q.mu.Unlock()
}
