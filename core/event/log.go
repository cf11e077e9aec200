package event

import (
	"iter"
	"sync"

	"github.com/gresil/gresil/core"
)

// A Log holds the latest events, up to its capacity. Make it with [New]. It may
// be used from several goroutines at once.
type Log[T any] struct {
	capacity int

	mu   sync.Mutex
	ring []T    // grows up to capacity; event id is at (id-1) % capacity
	last uint64 // id of the newest
}

// New makes a log of the latest capacity events. A capacity below 1 is a
// [*core.ConfigError]. The memory for them is taken as they come.
func New[T any](capacity int) (*Log[T], error) {
	if capacity < 1 {
		return nil, &core.ConfigError{Field: "event.New.capacity", Value: capacity, Reason: "must be >= 1"}
	}
	return &Log[T]{capacity: capacity}, nil
}

// Add appends an event and returns its id. Ids begin with 1 and have no gaps.
func (l *Log[T]) Add(event T) (id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ring) < l.capacity {
		l.ring = append(l.ring, event)
	} else {
		l.ring[l.last%uint64(l.capacity)] = event
	}
	l.last++
	return l.last
}

// Since iterates over the events after the one with the given id that the log
// holds now, oldest first, with their ids. Since(0) is all of them. A reader that
// goes on from the last id it saw misses nothing as long as the first id it gets
// is the next one; a higher first id means that the events in between were dropped.
func (l *Log[T]) Since(id uint64) iter.Seq2[uint64, T] {
	first, events := l.snapshot(id)
	return func(yield func(uint64, T) bool) {
		for i, e := range events {
			if !yield(first+uint64(i), e) {
				return
			}
		}
	}
}

// snapshot copies the events after id, and returns the id of the first.
func (l *Log[T]) snapshot(id uint64) (first uint64, events []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = max(id, l.last-uint64(len(l.ring))) + 1
	if id >= l.last {
		return first, nil
	}
	events = make([]T, 0, l.last-first+1)
	start, end := (first-1)%uint64(l.capacity), (l.last-1)%uint64(l.capacity)
	if start > end {
		events = append(events, l.ring[start:]...)
		start = 0
	}
	return first, append(events, l.ring[start:end+1]...)
}

// Last returns the id of the newest event, and 0 before the first one.
func (l *Log[T]) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Dropped returns the number of events that were replaced by newer ones.
func (l *Log[T]) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last - uint64(len(l.ring))
}
