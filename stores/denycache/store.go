package denycache

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
	"github.com/gresil/gresil/internal/stripe"
)

// Config configures a store. The zero value is ready to use.
type Config struct {
	// Name is the name of the store in its Registry. If empty, it is "default".
	Name string
	// Registry registers the store under the kind "store" and its name, with the counters of the store that it wraps: do not
	// register both. If nil, it is not registered.
	Registry *core.Registry
	// MaxKeys is the number of refused keys that are kept; above it, the oldest is evicted. If zero, it is 10,000.
	MaxKeys int
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	if c.MaxKeys < 0 {
		return &core.ConfigError{Field: "denycache.Config.MaxKeys", Value: c.MaxKeys, Reason: "must be >= 0 (0 means 10000)"}
	}
	return nil
}

// A cache is a [ratelimit.Store] around another one. It is safe for concurrent use.
type cache struct {
	remove  func() // from the registry
	inner   ratelimit.Store
	cfg     Config
	denials *denials
	denied  stripe.Counter
	closed  atomic.Bool
}

// New wraps a store. The Close method of the result closes that store too. The error is about the Config, a nil store,
// or a name in use.
func New(store ratelimit.Store, cfg Config) (ratelimit.Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if identity.Missing(store) {
		return nil, &core.ConfigError{Field: "denycache store", Value: nil, Reason: "must not be nil"}
	}
	s := &cache{inner: store, cfg: cfg, denials: newDenials(cmp.Or(cfg.MaxKeys, 10_000))}
	var err error
	if s.remove, err = limitstore.Register(cfg.Registry, "denycache.Config.Name", cfg.Name, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Open opens a table of the wrapped store.
func (s *cache) Open(name string) (limits.Table, error) {
	t, err := s.inner.Open(name)
	if err != nil {
		return nil, err
	}
	return &table{t, s, name}, nil
}

// Close closes the wrapped store, and removes s from its registry.
func (s *cache) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.remove()
	return s.inner.Close()
}

// Stats returns the counters of the wrapped store, with Denied.
func (s *cache) Stats() (stats limitstore.Stats) {
	stats = limitstore.Of(s.inner)
	stats.Denied += s.denied.Load()
	return stats
}

type table struct {
	limits.Table
	store *cache
	name  string
}

// Unwrap returns the table of the wrapped store.
func (t *table) Unwrap() limits.Table { return t.Table }

// Apply refuses a take like one that the store has just refused. The store decides all other operations.
func (t *table) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	s := t.store
	denied, refused, asked := s.denials.refuse(t.name, key, plan, op)
	if refused && ctx.Err() == nil && !s.closed.Load() {
		s.denied.Inc()
		return denied, nil
	}
	r, err := t.Table.Apply(ctx, key, plan, op)
	switch _, unsent := limits.IsUnsent(err); {
	case op.Kind == limits.Refund, op.Kind == limits.Reset, op.Kind == limits.Drain:
		s.denials.forget(t.name, key, 0)
	case err == nil:
		s.denials.learn(asked, t.name, key, plan, op.Cost, r)
	case op.Cost > 0 && op.Kind != limits.Check && !unsent:
		s.denials.forget(t.name, key, longestDenial) // the store might refund the take
	}
	return r, err
}
