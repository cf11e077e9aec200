package pace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/roundtrip"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/validate"
)

// A Pacer gives permits for the calls to a vendor. It is safe for concurrent use.
type Pacer struct {
	life    instance.Hooked[Config, *setting, Hooks]
	limiter *ratelimit.Limiter
	memory  bool // the limiter has its own store
	done    chan struct{}
	closed  atomic.Bool
	once    sync.Once
	conns   roundtrip.Conns

	base       time.Time
	zero       time.Time    // the time 0 of the limiter's clock, in memory, or up to some µs before it
	refreshAt  atomic.Int64 // the time of the next Refresh, since base
	refreshing atomic.Bool

	granted                       stripe.Counter
	waited, stale, lost, rejected atomic.Uint64
	refreshed, refreshFailed      atomic.Uint64

	busy    atomic.Int64 // the sum of the loads of all lanes
	mu      sync.Mutex
	lanes   map[string]*lane
	most    int // size of lanes at which the idle ones are removed
	waiting int

	replaced chan struct{} // closed when the rates are replaced
}

func lifeCycle() *instance.Kind[Config, *setting] {
	return &instance.Kind[Config, *setting]{
		Kind: "pace", Type: "pace.Config", DefaultName: defaultName, Settings: settings,
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
			check.That(cfg.Mode == old.Mode, "Mode", cfg.Mode, "must stay "+old.Mode.String())
		},
	}
}

// New makes a pacer. It returns the errors of [Config.Validate], an error if the name is in use in
// the registry, or one that matches [ErrStore] if the Store cannot keep the rates.
func New(cfg Config) (*Pacer, error) {
	p := &Pacer{memory: cfg.Store == nil, done: make(chan struct{}), base: time.Now(), lanes: map[string]*lane{}, most: 64, replaced: make(chan struct{})}
	if err := p.life.InitHooks(lifeCycle(), hooksOf, cfg); err != nil {
		return nil, err
	}
	var err error
	limits := p.limits(&cfg)
	limits.Registry = &core.Registry{}
	if p.limiter, err = ratelimit.New(limits); err != nil {
		return nil, p.explain(err)
	}
	if p.memory {
		before := time.Now()
		r, _ := p.limiter.Peek(context.Background(), "") // memory does not fail
		p.zero = before.Add(-time.Duration(r.Receipt.At))
	}
	instance.Inner(limits.Registry).Events(false, p.heard)
	if err := p.life.Register(p, p.SetConfig, registry.Source{Figures: p.figures, Events: p.events}); err != nil {
		_ = p.limiter.Close()
		return nil, err
	}
	return p, nil
}

// limits returns the Config of the limiter.
func (p *Pacer) limits(cfg *Config) ratelimit.Config {
	policy := map[FailurePolicy]ratelimit.FailurePolicy{Deny: ratelimit.Deny, Local: ratelimit.Local, Allow: ratelimit.Allow}
	return ratelimit.Config{Name: cfg.Name, Limit: settings(cfg).limit, Store: cfg.Store, OnStoreError: policy[cfg.OnStoreError]}
}

// explain returns an error of the limiter as one of this package.
func (p *Pacer) explain(err error) error {
	if errors.Is(err, ratelimit.ErrStore) {
		return &storeError{err}
	}
	return validate.Relabel(err, "pace.Config.", "ratelimit.Config.", "ratelimit.")
}

// Name returns the name of the pacer.
func (p *Pacer) Name() string { return p.life.Name() }

// Config returns the Config of New or of the last SetConfig, as it was given except for a Name and
// Registry that stayed, and with the Rates in force.
func (p *Pacer) Config() Config { return p.life.Load().Config }

func (p *Pacer) setting() *setting { return p.life.Load().Settings }

// SetConfig replaces the Config while the pacer is in use. The permits that were given out keep their
// times, and count under the new rates. If the rates change, a call that waits for its slot gives it
// up, and reserves another one under the new rates. An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are another Store or Mode, and the errors of [Config.Validate], and
// nothing changes.
func (p *Pacer) SetConfig(cfg Config) error { return p.setConfig(cfg, nil) }

// setConfig replaces the Config, or with rates only its Rates.
func (p *Pacer) setConfig(cfg Config, rates []Rate) error {
	var old *setting
	err := p.life.SetConfig(cfg, func(cfg *Config) error {
		if old = p.setting(); rates != nil {
			*cfg = p.Config() // it can have changed meanwhile
			cfg.Rates = rates
		}
		if err := p.limiter.SetConfig(p.limits(cfg)); err != nil {
			return p.explain(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if now := p.setting(); now.Slack != old.Slack || now.Skew != old.Skew || !slices.Equal(now.Rates, old.Rates) {
		p.newRates()
	}
	return nil
}

// SetRates replaces the Rates of the Config, as SetConfig does.
func (p *Pacer) SetRates(rates ...Rate) error {
	cfg := p.Config()
	cfg.Rates = slices.Clone(rates)
	return p.setConfig(cfg, cfg.Rates)
}

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at that moment
// are not interrupted.
func (p *Pacer) Observe(h Hooks) (cancel func()) { return p.life.Observe(h) }

// Close removes the pacer from its registry. Waiting calls, and later ones, get [ErrClosed]. It does
// not wait for calls that have a permit. A second Close does nothing.
func (p *Pacer) Close() error {
	p.once.Do(func() {
		p.closed.Store(true)
		close(p.done)
		_ = p.life.Close()    // always nil
		_ = p.limiter.Close() // likewise: a store of its own is in memory
	})
	return nil
}

// heard calls the hook of an event of the limiter.
func (p *Pacer) heard(ctx context.Context, e registry.Event) {
	switch {
	case e.Outage && e.Warn:
		p.call(ctx, p.life.Hooks().StoreFailed, Info{Key: e.Key, Err: p.explain(e.Err())})
	case e.Outage:
		p.call(ctx, p.life.Hooks().StoreRecovered, Info{Key: e.Key})
	}
}
