package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/validate"
)

// A setting is a limit in force.
type setting struct {
	limit Limit
	plan  *limits.Plan
	one   *limits.Rule // for TakeOne; nil if TakeOne cannot decide the limit
}

// settings are a Config in force, and its limits. They are immutable.
type settings struct {
	Config

	main  *setting
	named map[string]*setting
	views map[string]*Limiter // by every name that Limits has ever had
}

// setting validates the limit in a field, and registers it with the table.
func (s *shared) setting(field string, limit Limit) (*setting, error) {
	if err := limit.check(field); err != nil {
		return nil, err
	}
	plan, err := s.table.Plan(limits.Limit(limit).Specs())
	if errors.Is(err, core.ErrConfig) { // the store cannot count it
		return nil, validate.Relabel(err, field, "ratelimit.Limit")
	} else if err != nil {
		return nil, &storeError{s.Name(), err}
	}
	set := &setting{limit: limit, plan: plan}
	if s.memory != nil && len(plan.Rules) == 1 && !plan.Rules[0].Listed() {
		set.one = plan.Rules[0]
	}
	return set, nil
}

// adopt puts a Config into force. Its limits apply to waiters too.
func (s *shared) adopt(cfg *Config) (err error) {
	if err := s.localize(cfg); err != nil {
		return err
	}
	all := &settings{Config: *cfg, named: map[string]*setting{}, views: map[string]*Limiter{}}
	if old := s.current.Load(); old != nil {
		maps.Copy(all.views, old.views)
	}
	all.main, err = s.setting("ratelimit.Config.Limit", cfg.Limit)
	for _, name := range slices.Sorted(maps.Keys(all.Limits)) {
		var bad error
		all.named[name], bad = s.setting(fmt.Sprintf("ratelimit.Config.Limits[%q]", name), all.Limits[name])
		err = errors.Join(err, bad)
		if all.views[name] == nil {
			all.views[name] = &Limiter{shared: s, name: name, tally: &tally{}}
		}
	}
	if err == nil {
		s.lines.Anew(func() { s.current.Store(all) })
	}
	return err
}

// settingOf returns the setting that applies to a key, and the Config, with the overrides of ctx.
func (l *Limiter) settingOf(ctx context.Context, key string) (*setting, *Config, error) {
	all := l.current.Load()
	set, own := all.main, false
	if l.name != "" && all.named[l.name] != nil {
		set = all.named[l.name]
	}
	if l.keyLimits.n.Load() > 0 {
		if of, ok := l.keyLimits.byKey.Load(key); ok {
			set, own = of.(*setting), true //nolint:forcetypeassert // nothing else is stored
		}
	}
	if !l.overridden.Load() {
		return set, &all.Config, nil
	}
	return l.overriding(ctx, all, set, own)
}

// overriding applies the overrides of ctx. They do not replace the limit of a key that has its own.
func (l *Limiter) overriding(ctx context.Context, all *settings, set *setting, own bool) (*setting, *Config, error) {
	f := override.From[shared, Config](ctx, l.shared)
	if f == nil {
		return set, &all.Config, nil
	}
	cfg := new(all.Config)
	cfg.Limits = maps.Clone(cfg.Limits)
	f(cfg)
	cfg.Name, cfg.Registry, cfg.MaxKeys, cfg.Store = all.Name, all.Registry, all.MaxKeys, all.Store
	if err := errors.Join(cfg.Validate(), l.localize(cfg)); err != nil {
		return nil, nil, err
	}
	limit, named := cfg.Limits[l.name]
	if !named {
		limit = cfg.Limit
	}
	if own || limit == set.limit {
		return set, cfg, nil
	}
	set, err := l.setting("ratelimit.Config.Limit", limit)
	return set, cfg, err
}

const maxKeyLimits = 1 << 20

var errKeyLimits = errors.New("ratelimit: at most 1048576 keys can have a limit of their own")

// keyLimits are the keys that have a limit of their own.
type keyLimits struct {
	n     atomic.Int64
	byKey sync.Map // string to *setting
}

// set sets the setting of a key, or removes it if s is nil.
func (o *keyLimits) set(key string, s *setting) error {
	if s == nil {
		if _, had := o.byKey.LoadAndDelete(key); had {
			o.n.Add(-1)
		}
	} else if _, had := o.byKey.Swap(strings.Clone(key), s); !had && o.n.Add(1) > maxKeyLimits {
		_ = o.set(key, nil)
		return errKeyLimits
	}
	return nil
}

// SetKeyLimit gives one key a limit of its own, instead of Config.Limit, and instead of the limit of Under. The zero Limit removes it. It
// applies at once, in this process only; past usage counts. At most 1,048,576 keys can have a limit of their own; for one more, it returns
// an error.
func (l *Limiter) SetKeyLimit(key string, limit Limit) (err error) {
	var set *setting
	if limit != (Limit{}) {
		if set, err = l.setting("ratelimit.Limit", limit); err != nil {
			return err
		}
	}
	l.lines.AnewOf(key, func() { err = l.keyLimits.set(key, set) })
	return err
}
