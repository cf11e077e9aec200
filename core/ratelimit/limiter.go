package ratelimit

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limits/memory"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/internal/waitq"
)

// A Limiter limits how many permits a key can take. It is safe for concurrent use. It is a core.Mechanism.
type Limiter struct {
	*shared
	name  string // of the limit in Config.Limits; empty for Config.Limit
	tally *tally // of the decisions under that limit, except for those that TakeOne counts
}

// A tally counts decisions.
type tally struct{ allowed, rejected stripe.Counter }

// shared is the state that a limiter shares with those that Under returns.
type shared struct {
	life    instance.Instance[Config, struct{}]
	current atomic.Pointer[settings]
	table   limits.Table

	memory *memory.Table                // the table, if there is no Store
	local  atomic.Pointer[limits.Table] // decides while the store is unavailable; nil unless OnStoreError is Local
	open   context.Context              //nolint:containedctx // ends with Close
	stop   context.CancelFunc

	keyLimits  keyLimits
	overridden atomic.Bool // Override was called

	decisions tally // under Config.Limit
	canceled  atomic.Uint64
	waiting   atomic.Int64
	lines     waitq.Lines[Result]
	waits     [2]registry.Histogram // 0: waits that ended with permits, 1: canceled waits

	locals, undecided   atomic.Uint64 // operations that the store failed to decide
	failures, recovered atomic.Uint64 // failures of the store, and the number at its last recovery: equal unless it is failing
}

func lifeCycle() *instance.Kind[Config, struct{}] {
	return &instance.Kind[Config, struct{}]{
		Kind: "ratelimit", Type: "ratelimit.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			if cfg.Store == nil {
				cfg.Store = old.Store
			}
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one",
				"must stay as it is")
			check.That(cfg.MaxKeys == old.MaxKeys, "MaxKeys", cfg.MaxKeys, "must stay as it is")
		},
	}
}

// New makes a limiter. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New(cfg Config) (_ *Limiter, err error) {
	cfg.Limits = maps.Collect(maps.All(cfg.Limits)) // a copy of the caller's map; never nil
	l := &Limiter{shared: &shared{}}
	l.tally = &l.decisions
	l.open, l.stop = context.WithCancel(context.Background())
	if err := l.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if cfg.Store == nil {
		l.memory = memory.New(cfg.MaxKeys)
		l.table = l.memory
	} else if l.table, err = cfg.Store.Open(l.Name()); err != nil {
		return nil, &storeError{l.Name(), err}
	}
	if err = l.adopt(&cfg); err == nil {
		err = l.life.Register(l, l.SetConfig, registry.Source{Figures: l.figures})
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// localize opens the table that decides while the store is unavailable, if cfg requires one.
func (s *shared) localize(cfg *Config) error {
	if cfg.OnStoreError != Local || s.memory != nil || s.local.Load() != nil {
		return nil
	}
	t, ok := s.table.(limits.LocalTable)
	if !ok {
		return validate.Bad("ratelimit.Config.OnStoreError", Local,
			"must be Allow or Deny with this Store: wrap it in share.New of stores/share")
	}
	local := t.Local()
	s.local.Store(&local)
	return nil
}

// Name returns the name of the limiter.
func (s *shared) Name() string { return s.life.Name() }

// Config returns the Config of New or of the last SetConfig. Its map is a copy, and never nil.
func (l *Limiter) Config() Config {
	c := l.current.Load().Config
	c.Limits = maps.Clone(c.Limits)
	return c
}

// SetConfig replaces the Config while the limiter is in use. Limits apply at once, and past usage counts under them: a change grants no
// permits, and does not delay the time at which a key has all its permits again. An empty Name and a nil Registry and Store stay as they
// are. Another Name, Registry, Store or MaxKeys, and each error of Config.Validate, is a *core.ConfigError, and nothing changes.
//
// Usage stays counted under its old limit until the first take that is granted under the new one. If permits were reserved ahead, nothing
// is granted before the last of them is due. See docs/adr/0006-a-key-has-one-value.md for the bounds.
func (l *Limiter) SetConfig(cfg Config) error {
	cfg.Limits = maps.Collect(maps.All(cfg.Limits))
	return l.life.SetConfig(cfg, l.adopt)
}

// Under returns a limiter like l with the limit of that name in Config.Limits. The keys are the same: what a key has used under one limit
// counts under the others too, so a user whose tier changes keeps the usage so far. To count keys separately, give them a prefix. If
// Config.Limits does not have the name, Under returns l. Everything else, SetConfig and Close included, is that of l.
func (l *Limiter) Under(name string) *Limiter {
	if all := l.current.Load(); all.named[name] != nil {
		return all.views[name]
	}
	return l
}

// Override returns a context under which f changes the Config for operations of this limiter, for example the Limit of one customer.
// Overrides nest; the innermost is applied last. f cannot change Name, Registry, MaxKeys and Store. An operation under an invalid Config
// returns a *core.ConfigError.
func (l *Limiter) Override(ctx context.Context, f func(*Config)) context.Context {
	if !l.overridden.Load() {
		l.overridden.Store(true)
	}
	return override.Context(ctx, l.shared, f)
}

// Close removes the limiter from its registry, and ends every wait. Later operations return core.ErrClosed.
func (l *Limiter) Close() error {
	l.stop()
	if l.memory != nil {
		l.memory.Close()
	}
	return l.life.Close()
}
