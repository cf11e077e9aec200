package breaker

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/internal/override"
)

// A Group has a breaker for each key, with one Config. It is safe for concurrent use.
type Group struct {
	*shared
	overflow *Breaker // of the keys that found no room

	overflowed atomic.Uint64 // calls of For
	hosts      atomic.Uint32 // 1 if the keys of all plugins are hosts

	mu      sync.RWMutex
	byKey   map[string]*Breaker
	all     []*Breaker
	hand    int   // where the search for a victim continues
	retired Stats // of the evicted breakers
	evicted uint64
}

// NewGroup makes a group without breakers. It is registered under the kind "breaker" and its name. It returns the errors of
// Config.Validate, or an error if the name is in use in the registry.
func NewGroup(cfg Config) (*Group, error) {
	s, err := newShared(cfg, true)
	if err != nil {
		return nil, err
	}
	g := &Group{shared: s, byKey: map[string]*Breaker{}, overflow: newBreaker(s, "")}
	if err := s.life.Register(g, g.SetConfig, g.source()); err != nil {
		return nil, err
	}
	return g, nil
}

// For returns the breaker of a key, and makes it if there is none. Call it again for each call, as a breaker can be evicted.
func (g *Group) For(key string) *Breaker {
	g.mu.RLock()
	b := g.byKey[key]
	g.mu.RUnlock()
	if b == nil {
		return g.add(key)
	}
	if !b.used.Load() {
		b.used.Store(true)
	}
	return b
}

func (g *Group) add(key string) *Breaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.byKey[key]; b != nil {
		return b
	}
	if len(g.all) >= g.life.Load().Settings.MaxKeys && !g.evict() {
		g.overflowed.Add(1)
		return g.overflow
	}
	key = strings.Clone(key)
	b := newBreaker(g.shared, key)
	g.byKey[key] = b
	g.all = append(g.all, b)
	return b
}

// probes is the number of breakers that are looked at to find one to evict.
const probes = 16

// evict looks for a closed breaker to evict, first for one that was not used since the last visit. It reports whether it has found
// any.
func (g *Group) evict() bool {
	found := -1
	for range min(probes, 2*len(g.all)) {
		g.hand = (g.hand + 1) % len(g.all)
		b := g.all[g.hand]
		switch state := stateOf(b.word.Load()); {
		case !idle(state, b.life.Load().Settings.Initial):
		case !b.used.Swap(false):
			return g.drop(g.hand)
		default:
			found = g.hand
		}
	}
	return found >= 0 && g.drop(found)
}

// idle reports whether only counts are lost if a breaker is evicted: it is closed, or in the state in which a new one begins.
func idle(s, initial State) bool { return s == Closed || s == initial && s > HalfOpen }

// drop evicts a breaker, unless it has opened since it was chosen.
func (g *Group) drop(i int) bool {
	b := g.all[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if !idle(b.state, b.rules.Initial) {
		return false
	}
	s, _ := b.snapshot()
	g.retired = g.retired.plus(s)
	g.evicted++
	delete(g.byKey, b.key)
	last := len(g.all) - 1
	g.all[i] = g.all[last]
	g.all[last] = nil
	g.all = g.all[:last]
	return true
}

func (g *Group) breakers() []*Breaker {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Clone(g.all)
}

// All returns the keys and breakers, sorted by key.
func (g *Group) All() iter.Seq2[string, *Breaker] {
	all := g.breakers()
	slices.SortFunc(all, func(a, b *Breaker) int { return strings.Compare(a.key, b.key) })
	return func(yield func(string, *Breaker) bool) {
		for _, b := range all {
			if !yield(b.key, b) {
				return
			}
		}
	}
}

// Override returns a context under which f changes the Config for calls of all breakers of the group, as [Breaker.Override] does.
func (g *Group) Override(ctx context.Context, f func(*Config)) context.Context {
	if !g.overridden.Swap(true) {
		g.adopt()
	}
	return override.Context(ctx, g.shared, f)
}

// SetConfig replaces the Config of all breakers, as [Breaker.SetConfig] does.
func (g *Group) SetConfig(cfg Config) error {
	if err := g.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	g.adopt()
	return nil
}

func (g *Group) adopt() {
	for _, b := range append(g.breakers(), g.overflow) {
		b.adopt()
	}
}

// Close removes the group from its registry. It goes on working.
func (g *Group) Close() error { return g.life.Close() }
