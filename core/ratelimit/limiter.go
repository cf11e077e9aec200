package ratelimit

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/gresil/gresil/core"
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
	tally *tally // of a named limit
}

// A tally counts decisions.
type tally struct{ allowed, rejected stripe.Counter }

// shared is the state that the limiters of Under have in common.
type shared struct {
	life    instance.Instance[Config, struct{}]
	current atomic.Pointer[settings]
	table   limits.Table

	memory *memory.Table                // the table, if there is no Store
	local  atomic.Pointer[limits.Table] // decides while the store cannot
	open   context.Context              //nolint:containedctx // until Close
	stop   context.CancelFunc

	keyLimits  keyLimits
	overridden atomic.Bool // Override was called

	decisions tally
	canceled  atomic.Uint64
	waiting   atomic.Int64
	lines     waitq.Lines[Result]
	waits     [2]registry.Histogram // that ended with permits, or were canceled

	locals, undecided   atomic.Uint64 // operations that the store failed to decide
	failures, recovered atomic.Uint64 // of the store; equal unless it is failing
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
	l := &Limiter{shared: &shared{}}
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

// localize opens a table that decides while the store is unavailable, if cfg requires it.
func (s *shared) localize(cfg *Config) error {
	if cfg.OnStoreError != Local || s.memory != nil || s.local.Load() != nil {
		return nil
	}
	t, ok := s.table.(limits.LocalTable)
	if !ok {
		return &core.ConfigError{
			Field: "ratelimit.Config.OnStoreError", Value: Local,
			Reason: "must be Allow or Deny with this Store: wrap it in share.New of stores/share",
		}
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

// SetConfig replaces the Config while the limiter is in use. Limits apply at once, and past usage counts under them: a change
// grants no permits, and locks no key for longer than it was. An empty Name and a nil Registry and Store stay as they are.
// Another Name, Registry, Store or MaxKeys, and each error of Config.Validate, is a *core.ConfigError, and nothing changes.
//
// Usage stays with the limit that it was counted under, until the first take that is granted under another one. With permits
// reserved ahead, nothing is granted before the last of them is due. See docs/adr/0006-a-key-has-one-value.md for the bounds.
func (l *Limiter) SetConfig(cfg Config) error { return l.life.SetConfig(cfg, l.adopt) }

// Under returns l under another limit of Config.Limits, with the same keys: what a key has used under one limit counts under
// the others too, so a user who changes the tier starts with the usage so far. To count keys apart, give them a prefix. A
// name that is not in Config.Limits is l itself, as "" is. Everything but the limit is that of l, also SetConfig and Close.
func (l *Limiter) Under(name string) *Limiter {
	if all := l.current.Load(); all.named[name] != nil {
		return all.views[name]
	}
	return l
}

// Override returns a context under which f changes the Config for operations of this limiter, for example the Limit of one
// customer. Overrides nest; the innermost is applied last. Name, Registry, MaxKeys and Store stay, and f does not write to the
// map Limits. An operation under an invalid Config returns a *core.ConfigError.
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
