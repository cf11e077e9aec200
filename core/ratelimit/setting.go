package ratelimit

import (
	"cmp"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
)

// A setting is what keys are held to.
type setting struct {
	limit   Limit // with defaults filled in
	plan    PlanID
	past    []Past
	expires time.Time // of past
	one     *plan     // for takeOne; nil where there is more than one limit, or one of another kind in past
}

// setting makes a limit known to the table. It is valid.
func (s *shared) setting(limit Limit) (*setting, error) {
	plan, err := s.table.Plan(limit)
	if err != nil {
		return nil, &StoreError{Name: s.Name(), Err: err}
	}
	set := &setting{limit: limit.resolved(), plan: plan}
	set.one = s.only(plan)
	return set, nil
}

// only is the one bucket or fixed window that a plan in memory is, or nil.
func (s *shared) only(id PlanID) *plan {
	if s.memory != nil {
		if p := (*s.memory.plans.Load())[id]; len(p.parts) == 1 && p.custom == nil {
			return p
		}
	}
	return nil
}

// alike tells whether the limits that came before p are single and of its kind: then what
// they wrote last says so by its number, and takeOne leaves it alone.
func (s *shared) alike(p *plan, past []Past) bool {
	return p != nil && !slices.ContainsFunc(past, func(was Past) bool {
		old := s.only(was.Plan)
		return old == nil || old.salt != p.salt
	})
}

// settingOf is what a key is held to now.
func (l *Limiter) settingOf(key string) *setting {
	if l.overrides.n.Load() > 0 {
		if set := l.overrides.get(key); set != nil {
			return set
		}
	}
	set := l.current.Load()
	if !l.used.Load() {
		l.used.Store(true)
	}
	if set.past != nil && time.Now().After(set.expires) {
		l.current.CompareAndSwap(set, &setting{limit: set.limit, plan: set.plan, one: l.only(set.plan)})
	}
	return set
}

// settingOfTake is settingOf for a take under a plan: that of the limiter over the same keys
// that holds them to this plan, or of l if none does any more.
func (l *Limiter) settingOfTake(key string, plan PlanID) *setting {
	set := l.settingOf(key)
	if set.plan == plan || l.overrides.get(key) != nil {
		return set
	}
	if root := l.root.settingOf(key); root.plan == plan {
		return root
	}
	l.views.Range(func(_, view any) bool {
		if other := view.(*Limiter).current.Load(); other.plan == plan { //nolint:forcetypeassert // see With
			set = other
		}
		return set.plan != plan
	})
	return set
}

// Limit is what each key may take, with defaults filled in, unless an Override says
// otherwise.
func (l *Limiter) Limit() Limit { return l.current.Load().limit }

// InUse reports whether Limit applies to any key: it does not while every operation goes
// through limiters of [Limiter.WithLimit], as where each user has a tier. It is true until With
// is called first.
func (l *Limiter) InUse() bool {
	derived := false
	l.views.Range(func(any, any) bool { derived = true; return false })
	return !derived || l.used.Load()
}

// SetLimit changes what each key may take, while the limiter is in use. No key gains
// by the change itself. A FixedWindow, a SlidingCounter and a segment of a
// SlidingWindow that is on ends under the limit that it began with, so that what was
// announced to clients stays true; all others are held to the new limit at once. A
// bucket keeps its debt in time, a window its count. Under a limit of another kind a
// key owes as many permits as before, as if it had taken them just now. Of several
// limits joined by And, those that are not in the new one are dropped. A table in
// memory knows 65,535 different limits; one more is a [*StoreError].
//
// Those who wait are held to the new limit, and have their times changed by it. Keys
// with an Override, and limiters by With, are not; for one made by With it is an error
// that matches [core.ErrConfig].
func (l *Limiter) SetLimit(limit Limit) error {
	if err := l.mustBeRoot(); err != nil {
		return err
	}
	if err := limit.Validate(); err != nil {
		return err
	}
	set, err := l.setting(limit)
	if err != nil {
		return err
	}
	for {
		now := time.Now()
		old := l.current.Load()
		if set.plan == old.plan {
			return nil
		}
		past := slices.Clone(old.past)
		if now.After(old.expires) {
			past = nil
		}
		next := *set
		next.past = append(past, Past{Plan: old.plan, Until: now})
		if next.expires = now.Add(life(old.limit)); next.expires.Before(old.expires) {
			next.expires = old.expires
		}
		if len(next.past) > maxPast {
			next.past = next.past[len(next.past)-maxPast:]
		}
		if !l.alike(next.one, next.past) {
			next.one = nil
		}
		if l.current.CompareAndSwap(old, &next) {
			break
		}
	}
	if t, ok := l.table.(*table); ok {
		t.retime()
	}
	return nil
}

// SetConfig replaces the Config while the limiter is in use. Its Limit is that of
// SetLimit; MaxWait, MaxQueue, Order and OnStoreError hold for what comes after, and
// Hooks for what is told after, while observers stay. An empty Name and a nil Registry
// are what they were. Where cfg does not validate, or has another Name, Registry, Store
// or MaxKeys, the error says so and nothing changes.
func (l *Limiter) SetConfig(cfg Config) error {
	if err := l.mustBeRoot(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.cfg.Load()
	cfg.Name, cfg.Registry = cmp.Or(cfg.Name, old.Name), cmp.Or(cfg.Registry, old.Registry)
	errs := []error{cfg.Validate()}
	check := func(same bool, field string, value any) {
		if !same {
			errs = append(errs, &core.ConfigError{Field: "ratelimit.Config." + field, Value: value, Reason: "must stay as it is"})
		}
	}
	check(cfg.name() == l.name, "Name", cfg.Name)
	check(cfg.Registry == old.Registry, "Registry", "another one")
	check((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one")
	check(cfg.MaxKeys == old.MaxKeys, "MaxKeys", cfg.MaxKeys)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := l.localize(cfg); err != nil {
		return err
	}
	if err := l.root.SetLimit(cfg.Limit); err != nil {
		return err
	}
	l.cfg.Store(&cfg)
	l.hooks.Own(cfg.Hooks)
	return nil
}

func (l *Limiter) mustBeRoot() error {
	if l != l.root {
		return &core.ConfigError{Field: "ratelimit.Limiter", Value: l.Name(), Reason: "must be the one that New returned: one made by With has one limit"}
	}
	return nil
}

// maxPast is how many limits are kept that were replaced while keys may still be held
// to them. With more the oldest gives way at once.
const maxPast = 16

// life is how long a key can owe anything under a limit.
func life(l Limit) time.Duration {
	longest := time.Duration(0)
	for _, l := range l.All() {
		span := l.Period * (reserveAhead + 1)
		switch {
		case l.Custom != nil:
			span = math.MaxInt64 / 2
		case l.Algorithm == AlgorithmTokenBucket:
			fill, _ := mulDiv(uint64(l.Burst), uint64(l.Period), uint64(l.Permits)) // it is valid: at most MaxPeriod
			span = (reserveAhead + 1) * time.Duration(fill)
		}
		longest = max(longest, span)
	}
	return longest
}

// MaxKeyLimits is how many keys can have an Override at a time.
const MaxKeyLimits = 1 << 20

var errOverrides = errors.New("ratelimit: at most 1048576 keys can have an override")

// overrides are the keys that have a limit of their own.
type overrides struct {
	n     atomic.Int64
	mu    sync.RWMutex
	byKey map[string]*setting
}

func (o *overrides) get(key string) *setting {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.byKey[key]
}

// SetKeyLimit holds one key to a limit of its own, in the place of any other, also of one
// by With, until ClearKeyLimit. It applies at once, and what the key has taken stays
// taken as With has it: under a limit of another kind it counts for itself. At most
// MaxKeyLimits keys can have one: above that it is an error.
func (l *Limiter) SetKeyLimit(key string, limit Limit) error {
	if err := limit.Validate(); err != nil {
		return err
	}
	set, err := l.setting(limit)
	if err != nil {
		return err
	}
	return l.override(key, set)
}

// ClearKeyLimit ends an Override; without one it does nothing.
func (l *Limiter) ClearKeyLimit(key string) { _ = l.override(key, nil) }

func (l *Limiter) override(key string, set *setting) error {
	o := &l.overrides
	o.mu.Lock()
	switch {
	case set == nil:
		delete(o.byKey, key)
	case len(o.byKey) >= MaxKeyLimits && o.byKey[key] == nil:
		o.mu.Unlock()
		return errOverrides
	case o.byKey == nil:
		o.byKey = map[string]*setting{strings.Clone(key): set}
	default:
		o.byKey[strings.Clone(key)] = set
	}
	o.n.Store(int64(len(o.byKey)))
	o.mu.Unlock()
	if t, ok := l.table.(*table); ok {
		t.retimeKey(maphash.String(t.seed, key))
	}
	return nil
}
