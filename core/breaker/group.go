package breaker

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/override"
)

// A Group has a breaker for each key, with one Config. It is safe for concurrent use.
type Group struct {
	*shared

	mu                  sync.RWMutex
	byKey               map[string]*Breaker
	overflow            atomic.Pointer[Breaker] // shared by keys for which there was no room; nil if there are none
	evicted, overflowed atomic.Uint64           // evicted breakers; calls of For that returned overflow
	retired             Stats                   // of the evicted breakers
}

// NewGroup makes a group without breakers. It is registered under the kind "breaker" and its name. It returns the errors of
// Config.Validate, or an error if the name is in use in the registry.
func NewGroup(cfg Config) (*Group, error) {
	s, err := newShared(cfg, true)
	if err != nil {
		return nil, err
	}
	g := &Group{shared: s, byKey: map[string]*Breaker{}}
	if err := s.life.Register(g, g.SetConfig, g.source()); err != nil {
		return nil, err
	}
	return g, nil
}

// For returns the breaker of a key, and makes one if there is none. Use For for each call, since a breaker can be evicted. The text of an
// [*OpenError] contains the key, unless a plugin with keys other than hosts uses the group.
func (g *Group) For(key string) *Breaker {
	g.mu.RLock()
	b := g.byKey[key]
	g.mu.RUnlock()
	if b == nil {
		b = g.add(key)
	}
	return b
}

func (g *Group) add(key string) *Breaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.byKey[key]; b != nil {
		return b
	}
	if len(g.byKey) >= g.life.Load().Settings.MaxKeys && !g.evict() {
		if g.overflowed.Add(1); g.overflow.Load() == nil {
			g.overflow.Store(newBreaker(g.shared, ""))
		}
		return g.overflow.Load()
	}
	key = strings.Clone(key)
	b := newBreaker(g.shared, key)
	g.byKey[key] = b
	return b
}

// evict evicts the first idle breaker among 16, and reports whether it found one.
func (g *Group) evict() bool {
	looked := 0
	for key, b := range g.byKey { // the order is random
		if b.idle() {
			b.mu.Lock()
			g.retired = g.retired.plus(b.snapshot())
			b.mu.Unlock()
			g.evicted.Add(1)
			delete(g.byKey, key)
			return true
		}
		if looked++; looked == 16 {
			break
		}
	}
	return false
}

// forgotten is the time without a trial, although one was possible, after which a breaker can be evicted.
const forgotten = time.Hour

// idle reports whether a breaker can be evicted: it is closed, in the state in which a new one begins, or forgotten.
func (b *Breaker) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	switch b.state {
	case Closed:
		return true
	case Open:
		return now-b.since-b.openFor >= forgotten
	case HalfOpen:
		return now-max(b.since, b.latest) >= forgotten
	case ForcedOpen, Disabled, MetricsOnly:
	}
	return b.state == b.life.Load().Settings.Initial
}

// breakers returns all breakers, and the summed Stats of those that were evicted before.
func (g *Group) breakers() (all []*Breaker, retired Stats) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	all, retired = slices.Collect(maps.Values(g.byKey)), g.retired
	if rest := g.overflow.Load(); rest != nil {
		all = append(all, rest)
	}
	retired.Keys = len(g.byKey)
	return all, retired
}

// All returns the keys and breakers, sorted by key.
func (g *Group) All() iter.Seq2[string, *Breaker] {
	g.mu.RLock()
	all := maps.Clone(g.byKey)
	g.mu.RUnlock()
	return func(yield func(string, *Breaker) bool) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(key, all[key]) {
				return
			}
		}
	}
}

// Override returns a context under which f changes the Config for calls of all breakers of the group, as [Breaker.Override] does.
func (g *Group) Override(ctx context.Context, f func(*Config)) context.Context {
	g.overridden.Store(true)
	return override.Context(ctx, g.shared, f)
}

// SetConfig replaces the Config of all breakers, as [Breaker.SetConfig] does.
func (g *Group) SetConfig(cfg Config) error {
	if err := g.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	all, _ := g.breakers()
	for _, b := range all {
		b.adopt()
	}
	return nil
}

// Close removes the group from its registry. The group still works.
func (g *Group) Close() error { return g.life.Close() }
