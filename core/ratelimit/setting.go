package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/override"
)

// A setting is a limit in force for keys.
type setting struct {
	limit    Limit // not the zero Limit
	capacity int64
	specs    []limits.Spec
	plan     *limits.Plan
	one      *limits.Rule   // for takeOne; nil where that does not apply
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
	if s.memory != nil && len(plan.Rules) == 1 && !plan.Rules[0].Listed() {
		set.one = plan.Rules[0]
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
// grants no permits: past usage still counts. A key has one count, which names the limit that it was counted under. An
// operation under another limit asks how many permits are in use under that one; with permits reserved ahead, when the
// last of them is due, and nothing is granted before. The first take that is granted counts them under the new limit, as
// taken at that time; if the limits have the algorithm and the period in common, their times stay. A refused take
// waits for what the former limit gives back or, if both the take and the recovery of the key come sooner that way, is
// counted under the new limit at once.
//
// So a raise is felt at once, and no change locks a key for longer than it was. Of limits joined by And, each goes on
// from the count of its algorithm and period, otherwise from the one with the most permits in use. See
// docs/adr/0006-a-key-has-one-value.md for the bounds.
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
	s.lines.Anew(func() { s.current.Store(all) })
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
func (o *overrides) set(key string, s *setting) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s == nil {
		delete(o.byKey, key)
	} else if _, had := o.byKey[key]; !had && len(o.byKey) >= maxKeyLimits {
		return errKeyLimits
	} else {
		o.byKey[strings.Clone(key)] = s
	}
	o.n.Store(int64(len(o.byKey)))
	return nil
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
func (l *Limiter) override(key string, set *setting) (err error) {
	l.lines.Anew(func() { err = l.overrides.set(key, set) }, key)
	return err
}
