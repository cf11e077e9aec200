package hook

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A Set is the hooks of one instance, of type H: those of its Config, and those
// that observers add while it is in use. Make it with Own or Add before it is used.
type Set[H interface{ Join(other H) H }] struct {
	joined atomic.Pointer[H]
	mu     sync.Mutex
	own    H
	all    []*H
}

// Load returns all hooks as one. It costs an atomic load.
func (s *Set[H]) Load() *H { return s.joined.Load() }

// Own sets the hooks of the Config, which are called first, and replaces those of an
// earlier call: each event reaches exactly one of the two.
func (s *Set[H]) Own(h H) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = h
	s.publishLocked()
}

// Add adds hooks; cancel takes them out again.
func (s *Set[H]) Add(h H) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added := &h
	s.all = append(s.all, added)
	s.publishLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(other *H) bool { return other == added })
		s.publishLocked()
	}
}

func (s *Set[H]) publishLocked() {
	joined := s.own
	for _, h := range s.all {
		joined = joined.Join(*h)
	}
	s.joined.Store(&joined)
}
