package ratelimit

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/internal/waitq"
)

// A Limiter limits how many permits each key takes. [Limiter.Take] decides at once; [Limiter.Wait]
// waits for the permits.
type Limiter struct {
	*shared
	name  string   // of the limit in Config.Limits; empty for Config.Limit
	tally *tally   // of a named limit
	fixed *setting // of WithLimit
	used  atomic.Bool
}

// A tally counts decisions.
type tally struct{ allowed, rejected stripe.Counter }

// shared is the state that a limiter shares with the limiters that WithLimit derives from it.
type shared struct {
	life  instance.Instance[Config, struct{}]
	root  *Limiter
	table limits.Table
	own   *memory // the store, if the limiter made it

	memory *table                       // the table, if it is in memory
	local  atomic.Pointer[limits.Table] // decides while the store cannot
	done   chan struct{}
	once   sync.Once

	current    atomic.Pointer[settings]
	views      sync.Map            // Limit to *Limiter
	named      map[string]*Limiter // those of all names that there have been
	changing   sync.Mutex          // held while a limit is replaced, until the table has learned of it
	overrides  overrides
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
		Kind: "ratelimit", Type: "ratelimit.Config", DefaultName: defaultName,
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			if cfg.Store == nil {
				cfg.Store = old.Store
			}
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
			check.That(cfg.MaxKeys == old.MaxKeys, "MaxKeys", cfg.MaxKeys, "must stay as it is")
		},
	}
}

// New makes a limiter. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New(cfg Config) (*Limiter, error) {
	s := &shared{done: make(chan struct{}), overrides: overrides{byKey: map[string]*setting{}}, named: map[string]*Limiter{}}
	cfg.Limits = maps.Clone(cfg.Limits)
	if err := s.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if err := s.open(&cfg); err != nil {
		return nil, err
	}
	s.root = &Limiter{shared: s}
	err := s.localize(&cfg)
	if err == nil {
		err = s.adopt(&cfg)
	}
	if err == nil {
		err = s.life.Register(s.root, s.root.SetConfig, registry.Source{Figures: s.root.figures})
	}
	if err != nil {
		return nil, err
	}
	return s.root, nil
}

// open opens the table, in a store of the limiter if cfg has none.
func (s *shared) open(cfg *Config) (err error) {
	store := cfg.Store
	if store == nil {
		s.own = newMemory(cfg.MaxKeys)
		store = s.own
	}
	if s.table, err = store.Open(s.Name()); err != nil {
		return &storeError{s.Name(), err}
	}
	if _, ok := store.(*memory); ok {
		s.memory, _ = s.table.(*table)
	}
	return nil
}

// localize opens a table that decides while the store is unavailable, if cfg requires it.
func (s *shared) localize(cfg *Config) error {
	if cfg.OnStoreError != Local || s.memory != nil || s.local.Load() != nil {
		return nil
	}
	t, ok := s.table.(limits.LocalTable)
	if !ok {
		return &core.ConfigError{Field: "ratelimit.Config.OnStoreError", Value: Local, Reason: "must be Allow or Deny with this Store: wrap it in share.New of stores/share"}
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.local.Load() == nil {
		local := t.Local()
		s.local.Store(&local)
	}
	return nil
}

// Name is the name of the limiter.
func (s *shared) Name() string { return s.life.Name() }

func (s *shared) config() *Config { return &s.life.Load().Config }

// Config returns the Config of New or of the last SetConfig. Its map is a copy, and never nil.
func (l *Limiter) Config() Config {
	c := *l.config()
	now := l.current.Load().main
	if l.fixed != nil {
		now = l.fixed
	}
	if now.limit != c.Limit && (c.Limit != Limit{} || now.limit != PerMinute(1000)) {
		c.Limit = now.limit
	}
	limits := make(map[string]Limit, len(c.Limits))
	maps.Copy(limits, c.Limits)
	c.Limits = limits
	return c
}

// Under returns l under another limit of Config.Limits, with the same keys: what a key has used under one limit counts under
// the others too, so a user who changes the tier starts with the usage so far. To count keys apart, give them a prefix. A
// name that is not in Config.Limits is l itself, as "" is. Everything but the limit is that of l, also SetConfig and Close.
func (l *Limiter) Under(name string) *Limiter {
	if set := l.current.Load().named[name]; set != nil {
		return set.view
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

// WithLimit returns a limiter that applies another limit to the same keys: for tiers, or for the
// limit of one call. It applies at once, and SetLimit does not change it. Usage under any limit
// counts under all of them: see [Limiter.SetLimit]. A key comes under the limit with its first
// operation that takes or is refused.
//
// The same limit returns the same limiter, without allocating. Use few different limits: each is
// kept, and a table in memory has at most 65,535, after which a new one is an error that matches [ErrStore].
func (l *Limiter) WithLimit(limit Limit) (*Limiter, error) {
	if v, ok := l.views.Load(limit); ok {
		return v.(*Limiter), nil // the map holds only *Limiter
	}
	set, err := l.setting(limit)
	if err != nil {
		return nil, err
	}
	v, _ := l.views.LoadOrStore(limit, &Limiter{shared: l.shared, fixed: set})
	return v.(*Limiter), nil // the map holds only *Limiter
}

func (l *Limiter) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Close removes the limiter from the registry and ends every wait with [core.ErrClosed]. If the limiter
// made its store, later calls return core.ErrClosed too. It can be called twice, and also closes the
// limiters of WithLimit.
func (l *Limiter) Close() error {
	var err error
	l.once.Do(func() {
		close(l.done)
		_ = l.life.Close() // always nil
		if l.own != nil {
			err = l.own.Close()
		}
	})
	return err
}
