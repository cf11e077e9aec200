package breaker

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/validate"
)

const defaultMaxKeys = 1024

// A Group has a breaker for each key, all with the same Config. Its methods may be used
// by several goroutines at once.
//
// A new key needs room if the Group is full. The Group then looks at the next
// few, and evicts one of them, preferably one that was not used lately: a breaker with
// neither a failure nor a slow call in its window, otherwise one with such calls,
// otherwise one whose open time is over. It never evicts a breaker that stays open for
// longer, nor one that [Breaker.SetState] has made ForcedOpen, Disabled or MetricsOnly,
// unless that is the Initial of the Config. If none can be evicted, the new key shares
// one breaker with all other keys in that case, and the next Get looks at the breakers
// that follow. A running call does not keep its breaker: its result does not count after
// the eviction.
type Group struct {
	*shared
	maxKeys  int
	overflow *Breaker

	overflowed atomic.Uint64

	mu      sync.RWMutex
	byKey   map[string]*Breaker
	all     []*Breaker
	hand    int   // where the search for a victim continues
	retired Stats // of the evicted breakers
	evicted uint64
}

// NewGroup makes a group without a key. each is the Config of its breakers, with the name
// and registry of the group. maxKeys is the number of breakers at most: 1,024 if zero. It
// must not be negative. The error is that of [Config.Validate], joined with a
// [*core.ConfigError] for maxKeys, or of [core.Registry.Add]. A Group
// is registered under the kind "breaker", as a single Breaker is; its breakers are not
// registered.
func NewGroup(each Config, maxKeys int) (*Group, error) {
	s := &shared{base: time.Now()}
	check := validate.Of("breaker.NewGroup")
	check.That(maxKeys >= 0, "maxKeys", maxKeys, "must be > 0 (0 means 1024)")
	if err := errors.Join(s.life.Init(lifeCycle(), each), check.Err()); err != nil {
		return nil, err
	}
	g := &Group{shared: s, maxKeys: cmp.Or(maxKeys, defaultMaxKeys), byKey: map[string]*Breaker{}, overflow: newBreaker(s, "")}
	g.overflow.grouped = true
	if err := s.life.Register(g, g.SetConfig, g.source()); err != nil {
		return nil, err
	}
	return g, nil
}

// Close removes the group from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (g *Group) Close() error { return g.life.Close() }

// Get returns the breaker of a key, and makes it if there is none. Call Get again for
// each call: the breaker might have been evicted meanwhile. An evicted breaker still
// works, but alone.
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

// Lookup returns the breaker of a key, or nil.
func (g *Group) Lookup(key string) *Breaker {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.byKey[key]
}

func (g *Group) add(key string) *Breaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.byKey[key]; b != nil {
		return b
	}
	i := len(g.all)
	if i == g.maxKeys {
		if i = g.evict(); i < 0 {
			g.overflowed.Add(1)
			return g.overflow
		}
	}
	key = strings.Clone(key)
	b := newBreaker(g.shared, key)
	b.grouped = true
	if g.byKey[key] = b; i == len(g.all) {
		g.all = append(g.all, b)
	} else {
		g.all[i] = b
	}
	return b
}

// evict returns the index of an evicted breaker, or -1 if there is none to evict.
func (g *Group) evict() int {
	for {
		if i := g.victim(); i < 0 || g.drop(i) {
			return i
		}
	}
}

// probes is the number of breakers that are looked at to find a victim.
const probes = 16

// victim looks for a breaker to evict. Breakers used since the last visit come after the
// others. It goes around twice at most.
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

// drop evicts a breaker, unless it has opened since it was chosen.
func (g *Group) drop(i int) bool {
	b := g.all[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.worthLocked(g.now()) == keep {
		return false
	}
	delete(g.byKey, b.key)
	g.retired = g.retired.plus(b.statsLocked())
	g.evicted++
	return true
}

// The loss if a breaker is evicted.
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
	case b.state == HalfOpen, b.state == Open && now >= b.until:
		return trial
	case b.state == Open, b.byHand && b.state > HalfOpen && b.state != b.rules.Initial:
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

// peek is State without the change that is due.
func (b *Breaker) peek(now time.Duration) State {
	state := stateOf(b.word.Load())
	if e := b.refusal.Load(); state == Open && e != nil && now >= e.over {
		return HalfOpen
	}
	return state
}

func (g *Group) breakers() []*Breaker {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Clone(g.all)
}

// All iterates over the present keys and breakers, sorted by key. The group may change
// meanwhile.
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

// GroupStats are the counts of all breakers of a [Group] together.
type GroupStats struct {
	Stats
	Keys int
	// States is the number of keys in each State, as in States[breaker.Open]. A breaker
	// whose open time is over counts as half-open.
	States [MetricsOnly + 1]int

	Evicted       uint64 // breakers evicted to make room
	Overflowed    uint64 // calls of Get that found no room
	OverflowState State  // of the breaker that they share, which is not in Keys
}

// Stats returns the counts so far. They do not contain calls that end after their breaker
// was evicted.
func (g *Group) Stats() GroupStats {
	g.mu.RLock()
	s := GroupStats{Stats: g.retired, Keys: len(g.all), Evicted: g.evicted, Overflowed: g.overflowed.Load()}
	all := slices.Clone(g.all)
	g.mu.RUnlock()
	now := g.now()
	for _, b := range all {
		s.Stats = s.plus(b.Stats())
		s.States[b.peek(now)]++
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
		SlowSuccesses: s.SlowSuccesses + of.SlowSuccesses, SlowFailures: s.SlowFailures + of.SlowFailures, Exceeded: s.Exceeded + of.Exceeded, Opened: s.Opened + of.Opened,
	}
}
