package ratelimit

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
)

// A setting is a limit in force for keys.
type setting struct {
	limit Limit // with defaults filled in
	specs []limits.Spec
	plan  *limits.Plan
	one   *limits.Rule // for takeOne; nil where that does not apply
}

// setting validates a limit, and registers it with the table.
func (s *shared) setting(limit Limit) (*setting, error) {
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	specs := limit.Specs()
	plan, err := s.table.Plan(specs)
	if err != nil {
		return nil, &storeError{s.Name(), err}
	}
	set := &setting{limit: limit.resolved(), specs: specs, plan: plan}
	if s.memory != nil && len(plan.Rules) == 1 && !plan.Rules[0].Listed() {
		set.one = plan.Rules[0]
	}
	return set, nil
}

// settingOf returns the setting of a key now.
func (l *Limiter) settingOf(key string) *setting {
	if l.overrides.n.Load() > 0 {
		if set := l.overrides.get(key); set != nil {
			return set
		}
	}
	if !l.used.Load() {
		l.used.Store(true)
	}
	return l.current.Load()
}

// Limit returns the limit of each key, with defaults filled in. A key with a limit of its own is
// the exception: see [Limiter.SetKeyLimit].
func (l *Limiter) Limit() Limit { return l.current.Load().limit }

// InUse reports whether Limit applies to any key. It does not if every operation uses a limiter of
// [Limiter.WithLimit], for example if each user has a tier. It returns true until the first call
// of WithLimit.
func (l *Limiter) InUse() bool {
	derived := false
	l.views.Range(func(any, any) bool { derived = true; return false })
	return !derived || l.used.Load()
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
	if set.plan != l.current.Load().plan {
		l.lines.Anew(func() { l.current.Store(set) })
	}
	return nil
}

// SetConfig replaces the Config while the limiter is in use. Its Limit applies as in SetLimit.
// MaxWait, MaxQueue and OnStoreError apply to later calls;
// observers stay. An empty Name and a nil Registry leave those unchanged. If cfg does not
// validate, or has another Name, Registry, Store or MaxKeys, SetConfig returns an error and
// changes nothing.
func (l *Limiter) SetConfig(cfg Config) error {
	if err := l.mustBeRoot(); err != nil {
		return err
	}
	return l.life.SetConfig(cfg, func(cfg *Config) error {
		if err := l.localize(cfg); err != nil {
			return err
		}
		return l.SetLimit(cfg.Limit)
	})
}

func (l *Limiter) mustBeRoot() error {
	if l != l.root {
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

// SetKeyLimit sets a limit for one key, instead of any other, also of one by WithLimit, until
// ClearKeyLimit. It applies at once, and carries over past usage as SetLimit does. At most
// 2^20 keys can have a limit of their own: one more is an error.
func (l *Limiter) SetKeyLimit(key string, limit Limit) error {
	set, err := l.setting(limit)
	if err != nil {
		return err
	}
	return l.override(key, set)
}

// ClearKeyLimit removes the limit that SetKeyLimit set; without one it does nothing.
func (l *Limiter) ClearKeyLimit(key string) { _ = l.override(key, nil) }

// override sets the limit of a key, or clears it if set is nil.
func (l *Limiter) override(key string, set *setting) (err error) {
	l.lines.Anew(func() { err = l.overrides.set(key, set) }, key)
	return err
}
