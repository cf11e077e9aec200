package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/override"
)

// A setting is a limit in force for keys.
type setting struct {
	limit    Limit // not the zero Limit
	capacity int64
	specs    []limits.Spec
	plan     limits.ID
	one      *limits.Rule   // for takeOne; nil where that does not apply
	change   *limits.Change // that put it in force
	view     *Limiter       // of a named limit
}

// settings are the limits of a Config.
type settings struct {
	main  *setting
	named map[string]*setting
}

// setting validates a limit, and registers it with the table.
func (s *shared) setting(limit Limit) (*setting, error) {
	if err := limit.check("ratelimit.Limit"); err != nil {
		return nil, err
	}
	if limit == (Limit{}) {
		limit = PerMinute(1000)
	}
	specs := limits.Limit(limit).Specs()
	plan, err := s.table.Plan(specs)
	if err != nil {
		return nil, &storeError{s.Name(), err}
	}
	set := &setting{limit: limit, capacity: limits.Limit(limit).Capacity(), specs: specs, plan: plan}
	if s.memory != nil {
		if p := s.memory.All()[plan]; len(p.Rules) == 1 && !p.Rules[0].Listed() {
			set.one = p.Rules[0]
		}
	}
	return set, nil
}

// inForce returns the setting of most keys.
func (l *Limiter) inForce() *setting {
	all := l.current.Load()
	switch {
	case l.fixed != nil:
		return l.fixed
	case all.named[l.name] != nil: // no limit has the empty name
		return all.named[l.name]
	}
	return all.main
}

// settingOf returns the setting of a key now, and the Config, with the overrides of ctx.
func (l *Limiter) settingOf(ctx context.Context, key string) (*setting, *Config, error) {
	set, cfg := l.inForce(), l.config()
	if l == l.root && !l.used.Load() {
		l.used.Store(true)
	}
	if l.overrides.n.Load() > 0 {
		set = cmp.Or(l.overrides.get(key), set)
	}
	if !l.overridden.Load() {
		return set, cfg, nil
	}
	f := override.From[shared, Config](ctx, l.shared)
	if f == nil {
		return set, cfg, nil
	}
	over := *cfg
	f(&over)
	over.Name, over.Registry, over.MaxKeys, over.Store = cfg.Name, cfg.Registry, cfg.MaxKeys, cfg.Store
	if err := errors.Join(over.Validate(), l.localize(&over)); err != nil {
		return nil, nil, err
	}
	if l.overrides.n.Load() > 0 && l.overrides.get(key) != nil {
		return set, &over, nil
	}
	limit := over.Limit
	if named, ok := over.Limits[l.name]; ok {
		limit = named
	}
	if l.fixed == nil && limit != set.limit {
		var err error
		if set, err = l.setting(limit); err != nil {
			return nil, nil, err
		}
	}
	return set, &over, nil
}

// changeOf returns the change by which a key under a setting must be carried over: its own or,
// also for limiters of WithLimit, that of the main limit.
func (s *shared) changeOf(set *setting) *limits.Change {
	if set.change == nil {
		return s.current.Load().main.change
	}
	return set.change
}

// replace puts s into force instead of old.
func (s *setting) replace(old *setting, now time.Time) {
	var replaced []limits.ID
	if old.change != nil {
		replaced = old.change.Replaced
	}
	replaced = slices.DeleteFunc(append(slices.Clone(replaced), old.plan), func(id limits.ID) bool { return id == s.plan })
	s.change = &limits.Change{At: now, Plan: s.plan, Replaced: replaced[max(0, len(replaced)-maxReplaced):]}
}

// maxReplaced is the number of replaced limits that are remembered. The counts of older ones stay
// with a key as long as the key has any.
const maxReplaced = 64

// Limit returns the limit of each key, with defaults filled in. A key with a limit of its own is
// the exception: see [Limiter.SetKeyLimit].
func (l *Limiter) Limit() Limit { return l.inForce().limit }

// InUse reports whether Limit applies to any key. It does not if every operation uses a limiter of
// [Limiter.WithLimit], for example if each user has a tier. It returns true until the first call
// of WithLimit.
func (l *Limiter) InUse() bool {
	derived := false
	l.views.Range(func(any, any) bool { derived = true; return false })
	return !derived || l.root.used.Load()
}

// SetLimit changes the limit of all keys, while the limiter is in use. It applies at once, and
// grants no permits: past usage still counts. Usage that has not recovered counts under the new
// limit, in permits, as one take at the moment of the change.
//
// A key keeps a count for each limit that applied to it, until that count has recovered. Each take
// is charged to all of them; only the limit in force refuses. So no sequence of changes refills a
// key, a limit that is set again continues with its count, and no key is blocked for longer than
// the new limit needs to recover. Of several limits joined by And, the limits with equal
// Algorithm, Period, Segments and Aligned replace each other; any other new limit begins with the
// largest usage of the limits that are not replaced this way. A key keeps at most 8 counts. A
// table in memory has at most 65,535 different limits; one more is an error that matches [ErrStore].
// In a table that is not in memory, the last change alone carries over the usage of a key without an
// operation since the change before it: usage that has recovered by then no longer counts.
//
// Waiters come under the new limit, and their times change. Keys with a limit of their own and
// limiters of WithLimit are not changed. For a limiter made by WithLimit, SetLimit returns an
// error that matches [core.ErrConfig].
func (l *Limiter) SetLimit(limit Limit) error {
	if err := l.mustBeRoot(); err != nil {
		return err
	}
	set, err := l.setting(limit)
	if err != nil {
		return err
	}
	l.put(func(old *settings) *settings { return &settings{main: set, named: old.named} })
	return nil
}

// adopt puts the limits of a Config into force.
func (s *shared) adopt(cfg *Config) error {
	main, err := s.setting(cfg.Limit)
	if err != nil {
		return err
	}
	all := &settings{main: main, named: map[string]*setting{}}
	for name, limit := range cfg.Limits {
		if all.named[name], err = s.setting(limit); err != nil {
			return err
		}
	}
	s.put(func(*settings) *settings { return all })
	return nil
}

// put puts settings into force. Waiters come under them.
func (s *shared) put(next func(old *settings) *settings) {
	s.changing.Lock()
	defer s.changing.Unlock()
	old := s.current.Load()
	all := next(old)
	for name, set := range all.named {
		if s.named[name] == nil {
			s.named[name] = &Limiter{shared: s, name: name, tally: &tally{}}
		}
		set.view = s.named[name]
	}
	if old == nil {
		s.current.Store(all)
		return
	}
	s.lines.Anew(func() {
		if all.main.change = old.main.change; all.main.plan == old.main.plan {
			s.current.Store(all)
			return
		}
		all.main.replace(old.main, time.Now())
		s.current.Store(all)
		if t, ok := limits.As[limits.ChangingTable](s.table); ok {
			t.Changed(all.main.change)
		}
	})
}

// SetConfig replaces the Config while the limiter is in use. Limits apply at once, and past usage counts under them: a change
// grants no permits, and locks no key for longer than it was. An empty Name and a nil Registry and Store stay as they are.
// Another Name, Registry, Store or MaxKeys, and each error of Config.Validate, is a *core.ConfigError, and nothing changes.
func (l *Limiter) SetConfig(cfg Config) error {
	if err := l.mustBeRoot(); err != nil {
		return err
	}
	return l.life.SetConfig(cfg, func(cfg *Config) error {
		cfg.Limits = maps.Clone(cfg.Limits)
		if err := l.localize(cfg); err != nil {
			return err
		}
		return l.adopt(cfg)
	})
}

func (l *Limiter) mustBeRoot() error {
	if l.fixed != nil {
		return &core.ConfigError{Field: "ratelimit.Limiter", Value: l.Name(), Reason: "must be the one that New returned: one made by WithLimit has one limit"}
	}
	return nil
}

const maxKeyLimits = 1 << 20

var errKeyLimits = errors.New("ratelimit: at most 1048576 keys can have a limit of their own")

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

// set sets the setting of a key, or removes it if s is nil.
func (o *overrides) set(key string, s *setting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == nil {
		delete(o.byKey, key)
	} else {
		o.byKey[strings.Clone(key)] = s
	}
	o.n.Store(int64(len(o.byKey)))
}

// SetKeyLimit gives one key a limit of its own, instead of any other. The zero Limit removes it. It applies in this process,
// at once; past usage counts. 1,048,576 keys can have a limit of their own; one more is an error.
func (l *Limiter) SetKeyLimit(key string, limit Limit) (err error) {
	var set *setting
	if limit != (Limit{}) {
		if set, err = l.setting(limit); err != nil {
			return err
		}
	}
	return l.override(key, set)
}

// override sets the limit of a key, or clears it if set is nil.
func (l *Limiter) override(key string, set *setting) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	old, root := l.overrides.get(key), l.current.Load().main
	next := set
	switch {
	case set == nil && old == nil:
		return nil
	case set == nil:
		again := *root
		next = &again
	case old == nil && l.overrides.n.Load() >= maxKeyLimits:
		return errKeyLimits
	}
	l.lines.Anew(func() {
		next.replace(cmp.Or(old, root), time.Now())
		l.overrides.set(key, set)
		if t, ok := limits.As[limits.ChangingTable](l.table); ok {
			t.ChangedKey(key, root.change, next.change)
		}
	}, key)
	return nil
}
