package breaker

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
)

// DefaultMaxKeys is how many breakers a [Group] has at most when nothing is said.
const DefaultMaxKeys = 1024

// GroupConfig configures a [Group] beyond its breakers.
type GroupConfig struct {
	// MaxKeys is how many breakers there are at most. If zero, DefaultMaxKeys is
	// used. It must not be negative.
	MaxKeys int
}

// Validate reports every field that cannot be used, joined.
func (c GroupConfig) Validate() error {
	if c.MaxKeys < 0 {
		return &core.ConfigError{Field: "breaker.GroupConfig.MaxKeys", Value: c.MaxKeys, Reason: "must be > 0 (0 means 1024)"}
	}
	return nil
}

func (c GroupConfig) maxKeys() int {
	if c.MaxKeys == 0 {
		return DefaultMaxKeys
	}
	return c.MaxKeys
}

// A Group has a breaker for each key, all with the same Config. Its methods may be
// used by several goroutines at once.
//
// Where there are MaxKeys of them and there is a new key, the next few are looked
// at, and one of these is dropped, of those that have not been asked for lately if
// there are any: one with neither a failure nor a slow call in its window, else one
// with such, else one whose time to be open is over. One that is to be open for
// longer is never dropped, nor one that [Breaker.SetState] has made ForcedOpen,
// Disabled or MetricsOnly, unless this is the Initial of the Config. If there are
// only such among them, the new key shares one breaker with all others in that case,
// and the next Get looks at the ones that follow. A call that runs does not keep its
// breaker: how it ends counts for nobody once that is dropped.
type Group struct {
	*shared
	maxKeys  int
	overflow *Breaker

	overflowed atomic.Uint64

	mu      sync.RWMutex
	byKey   map[string]*Breaker
	all     []*Breaker
	hand    int   // where to look on for one to drop
	evicted Stats // of those that were dropped
	dropped uint64
}

// NewGroup makes a group without a key yet. Its name and registry are those of
// each. It returns what the Validate methods find, joined, or the
// [*core.DuplicateError] of the registry: a Group is registered under the kind
// "breaker", as a single Breaker is, and its breakers are not.
func NewGroup(each Config, cfg GroupConfig) (*Group, error) {
	s, err := newShared(each)
	if err = errors.Join(err, cfg.Validate()); err != nil {
		return nil, err
	}
	r := s.current.Load()
	g := &Group{shared: s, maxKeys: cfg.maxKeys(), byKey: map[string]*Breaker{}, overflow: newBreaker(s, r, "", s.initialDelay(r))}
	g.overflow.group = true
	if each.Registry != nil {
		if err := each.Registry.Add(kind, g.Name(), g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.name }

// Config returns the Config that the breakers have, as it was given.
func (g *Group) Config() Config { return g.current.Load().cfg }

// Observe adds hooks to those of the Config, for every breaker of the group, until
// cancel is called; info.Key tells which one. Events that happen at that moment
// may still be told.
func (g *Group) Observe(h Hooks) (cancel func()) { return g.hooks.Add(h) }

// Close takes the group out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (g *Group) Close() error {
	if r := g.Config().Registry; r != nil {
		r.Remove(kind, g.Name(), g)
	}
	return nil
}

// Get returns the breaker of a key, and makes it if there is none. Ask again for
// each call, since the breaker may have been dropped meanwhile; one that was still
// works, but for itself.
func (g *Group) Get(key string) *Breaker {
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

// Lookup returns the breaker of a key, or nil if there is none.
func (g *Group) Lookup(key string) *Breaker {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byKey[key]
}

func (g *Group) add(key string) *Breaker {
	for {
		r, openFor := g.current.Load(), new(time.Duration)
		if r.cfg.Initial == Open { // asks OpenDelay, which may use the group
			if b := g.tryAdd(key, r, nil); b != nil {
				return b
			}
			*openFor = g.initialDelay(r)
		}
		if b := g.tryAdd(key, r, openFor); b != nil {
			return b
		}
	}
}

// tryAdd makes the breaker of a key where there is none, and room for it. It only
// looks where openFor is nil, and returns nil where it would make one, where r are no
// longer the current rules, since SetConfig may have gone by already, and where the one
// to be dropped must be kept after all.
func (g *Group) tryAdd(key string, r *rules, openFor *time.Duration) *Breaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.byKey[key]; b != nil {
		return b
	}
	i := len(g.all)
	if i == g.maxKeys {
		if i = g.victim(); i < 0 {
			g.overflowed.Add(1)
			return g.overflow
		}
	}
	if openFor == nil || g.current.Load() != r {
		return nil
	}
	if i == len(g.all) {
		g.all = append(g.all, nil)
	} else if !g.drop(i) { // it is open by now
		return nil
	}
	key = strings.Clone(key)
	b := newBreaker(g.shared, r, key, *openFor)
	b.group = true
	g.all[i], g.byKey[key] = b, b
	return b
}

// probes is how many breakers are looked at to find one to drop.
const probes = 16

// victim looks for a breaker to drop. Those that were asked for since it last came
// by come after the others. It goes around twice at most.
func (g *Group) victim() int {
	now, found, best := g.now(), -1, 2*keep
	for range min(probes, 2*len(g.all)) {
		i := g.hand
		g.hand = (g.hand + 1) % len(g.all)
		b := g.all[i]
		worth := b.worth(now)
		used := b.used.Swap(false)
		switch {
		case worth == keep:
			continue
		case used:
			worth += keep
		case worth == nothing:
			return i
		}
		if worth < best {
			found, best = i, worth
		}
	}
	return found
}

// drop drops a breaker, unless something has happened to it since it was chosen.
func (g *Group) drop(i int) bool {
	b := g.all[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.worthLocked(g.now()) == keep {
		return false
	}
	delete(g.byKey, b.key)
	g.evicted = g.evicted.plus(b.statsLocked())
	g.dropped++
	return true
}

// What would be lost with a breaker.
const (
	nothing = iota
	failures
	trial
	keep
)

func (b *Breaker) worth(now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.worthLocked(now)
}

func (b *Breaker) worthLocked(now time.Duration) int {
	switch {
	case b.asking > 0: // it is about to open
		return keep
	case b.state == HalfOpen, b.state == Open && now >= b.until:
		return trial
	case b.state == Open, b.byHand && b.state > HalfOpen && b.state != b.rules.cfg.Initial:
		return keep
	}
	if b.buckets != nil {
		b.buckets.turn(now)
	}
	if w := b.window(); w.failures > 0 || w.slow > 0 {
		return failures
	}
	return nothing
}

// peek is State without making the change that is due.
func (b *Breaker) peek(now time.Duration) State {
	state := stateOf(b.word.Load())
	if e := b.refusal.Load(); state == Open && e != nil && now >= e.over {
		return HalfOpen
	}
	return state
}

// Overflow returns the breaker that keys share for which there is no room.
func (g *Group) Overflow() *Breaker { return g.overflow }

// All iterates over the keys and breakers as they are now, sorted by key. The
// group may change while it does.
func (g *Group) All() iter.Seq2[string, *Breaker] {
	g.mu.RLock()
	all := slices.Clone(g.all)
	g.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Breaker) int { return strings.Compare(a.key, b.key) })
	return func(yield func(string, *Breaker) bool) {
		for _, b := range all {
			if !yield(b.key, b) {
				return
			}
		}
	}
}

// GroupStats are those of all breakers of a [Group] together, and how many of them
// are in which state now. One whose time to be open is over counts as half-open.
type GroupStats struct {
	Stats
	Keys int

	ClosedKeys, OpenKeys, HalfOpenKeys, ForcedOpenKeys, DisabledKeys, MetricsOnlyKeys int

	Evicted       uint64 // breakers dropped to make room
	Overflowed    uint64 // calls of Get that found no room
	OverflowState State  // of the breaker that they share; it is none of Keys
}

// Stats returns the counts so far. A call that ends after its breaker was dropped
// is in none of them.
func (g *Group) Stats() GroupStats {
	g.mu.RLock()
	s := GroupStats{Stats: g.evicted, Keys: len(g.all), Evicted: g.dropped, Overflowed: g.overflowed.Load()}
	all := slices.Clone(g.all)
	g.mu.RUnlock()
	now := g.now()
	for _, b := range all {
		s.Stats = s.plus(b.Stats())
		switch b.peek(now) {
		case Closed:
			s.ClosedKeys++
		case Open:
			s.OpenKeys++
		case HalfOpen:
			s.HalfOpenKeys++
		case ForcedOpen:
			s.ForcedOpenKeys++
		case Disabled:
			s.DisabledKeys++
		case MetricsOnly:
			s.MetricsOnlyKeys++
		}
	}
	s.Stats = s.plus(g.overflow.Stats())
	s.OverflowState = g.overflow.peek(now)
	return s
}

// plus adds the counts of a breaker of the same group.
func (s Stats) plus(of Stats) Stats {
	return Stats{
		Successes: s.Successes + of.Successes, Failures: s.Failures + of.Failures, Ignored: s.Ignored + of.Ignored,
		Late: s.Late + of.Late, Rejected: s.Rejected + of.Rejected,
		SlowSuccesses: s.SlowSuccesses + of.SlowSuccesses, SlowFailures: s.SlowFailures + of.SlowFailures, Exceeded: s.Exceeded + of.Exceeded, Opened: s.Opened + of.Opened, HookPanics: of.HookPanics,
	}
}
