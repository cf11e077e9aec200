package dispatch

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// A Dispatcher makes the calls to one vendor. It is safe for concurrent use. Make calls
// with [Do], [Stream] and [RoundTripper].
type Dispatcher[K comparable, C any] struct {
	life   instance.Hooked[Config[K, C], Config[K, C], Hooks] // the settings have the defaults
	cool   *cooldown.Cooldown                                 // of the vendor: its only key is ""
	own    *cooldown.Cooldown                                 // by account
	flight *bulkhead.Bulkhead
	pool   pool[K, C]

	attempts, limited atomic.Uint64

	mu      sync.Mutex
	calls   *call[K, C] // accepted, not completed: a list
	active  int
	closed  bool
	drained chan struct{}   // made by Close; closed when no call is left
	held    map[string]span // the last cooldown of a scope
	most    int             // size of held at which those that are over are removed
	stats   Stats
}

func lifeCycle[K comparable, C any]() *instance.Kind[Config[K, C], Config[K, C]] {
	return &instance.Kind[Config[K, C], Config[K, C]]{
		Kind: "dispatch", Type: "dispatch.Config", DefaultName: defaultName, Settings: resolved[K, C],
		Fields: func(c *Config[K, C]) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config[K, C]) {
			check.That((cfg.Dial == nil) == (old.Dial == nil), "Dial", "another one", "must stay nil, or a function")
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
		},
	}
}

// New makes a dispatcher. It returns the errors of [Config.Validate], of the Store, or of
// a Registry that has the name already.
func New[K comparable, C any](cfg Config[K, C]) (*Dispatcher[K, C], error) {
	d := &Dispatcher[K, C]{held: map[string]span{}}
	if err := d.life.InitHooks(lifeCycle[K, C](), hooksOf[K, C], cfg); err != nil {
		return nil, err
	}
	d.pool = pool[K, C]{name: d.Name(), config: d.config, guard: d.life.Panics.Recover, base: time.Now(), stacks: map[K]*stack[K, C]{}}
	if err := d.open(); err != nil {
		return nil, err
	}
	if err := d.life.Register(d, d.SetConfig, registry.Source{Figures: d.figures, Events: d.events}); err != nil {
		d.closeCooldowns()
		return nil, err
	}
	return d, nil
}

// Suffixes of the names of cooldowns.
const (
	vendorScope  = ".vendor"
	accountScope = ".accounts"
)

// open makes the parts.
func (d *Dispatcher[K, C]) open() (err error) {
	if d.flight, err = bulkhead.New(d.config().inFlight()); err != nil {
		return err
	}
	if d.cool, err = d.cooldown(vendorScope); err != nil {
		return err
	}
	if d.own, err = d.cooldown(accountScope); err != nil {
		_ = d.cool.Close() // always nil
		return err
	}
	return nil
}

// cooldown makes a cooldown and listens to its events.
func (d *Dispatcher[K, C]) cooldown(scope string) (*cooldown.Cooldown, error) {
	cfg := d.config().cooldown(scope)
	cfg.Registry = &core.Registry{}
	c, err := cooldown.New(cfg)
	if err == nil {
		instance.Inner(cfg.Registry).Events(false, func(ctx context.Context, e registry.Event) { d.heard(ctx, scope, e) })
	}
	return c, err
}

// heard notes an event of a cooldown and calls its hook.
func (d *Dispatcher[K, C]) heard(ctx context.Context, scope string, e registry.Event) {
	hooks := d.life.Hooks()
	switch e.Text {
	case "calls are held back":
		d.onHeld(ctx, e.Key, e.Attr("until").Time())
	case "calls are made again":
		if f := hooks.Resumed; f != nil {
			d.call(caller[K, C](ctx), f, holdInfo(e.Key, e.Attr("held_until").Time()))
		}
	case "cooldown store failed":
		if f := hooks.StoreFailed; f != nil && scope == vendorScope { // once for both
			d.call(ctx, f, Info{Err: e.Err()})
		}
	case "cooldown store recovered":
		if f := hooks.StoreRecovered; f != nil && scope == vendorScope {
			d.call(ctx, f, Info{})
		}
	}
}

func (d *Dispatcher[K, C]) closeCooldowns() {
	_, _ = d.cool.Close(), d.own.Close() // always nil
}

// Name returns the name of the dispatcher.
func (d *Dispatcher[K, C]) Name() string { return d.life.Name() }

// Config returns the Config of New or of the last SetConfig, as it was given except for a
// Name and Registry that stayed.
func (d *Dispatcher[K, C]) Config() Config[K, C] { return d.life.Load().Config }

func (d *Dispatcher[K, C]) config() *Config[K, C] { return &d.life.Load().Settings }

// SetConfig replaces the Config while the dispatcher is in use. If Capacity is lowered,
// idle connections beyond it are closed at once, and others when they are returned. Another
// IdleTime applies to the connections that are idle, too. A
// cooldown in force stays. Whether Dial is nil must not change, nor must the Store. An empty Name and a nil
// Registry stay as they are: another one is a [*core.ConfigError], as are the errors of
// [Config.Validate], and nothing changes.
func (d *Dispatcher[K, C]) SetConfig(cfg Config[K, C]) error {
	if err := d.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	_ = d.cool.SetConfig(d.config().cooldown(vendorScope)) // it was validated
	_ = d.own.SetConfig(d.config().cooldown(accountScope)) // likewise
	_ = d.flight.SetConfig(d.config().inFlight())          // likewise
	d.pool.trim()
	return nil
}

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at
// that moment are not interrupted.
func (d *Dispatcher[K, C]) Observe(h Hooks) (cancel func()) { return d.life.Observe(h) }

// grace is how long Close waits for the calls that it has canceled.
const grace = time.Second

// Close removes the dispatcher from its registry and accepts no more calls: they get
// [ErrClosed]. It waits until the accepted calls have completed. If ctx ends before,
// Close cancels the contexts of these calls, waits for them for a second at most, and
// returns the cause of ctx. Calls that were not sent then get ErrClosed. Finally Close
// closes all idle connections; one that a call still uses is closed when that call ends.
// Cooldowns stay in the Store, which is not closed.
func (d *Dispatcher[K, C]) Close(ctx context.Context) error {
	_ = d.life.Close() // always nil
	d.mu.Lock()
	if d.drained == nil {
		d.drained = make(chan struct{})
		if d.active == 0 {
			close(d.drained)
		}
	}
	d.closed = true
	d.mu.Unlock()
	var err error
	select {
	case <-d.drained:
	case <-ctx.Done():
		err = d.cut(ctx)
	}
	d.pool.mu.Lock()
	d.pool.closed = true
	d.pool.mu.Unlock()
	d.pool.trim()
	d.closeCooldowns()
	return err
}

// cut cancels all calls.
func (d *Dispatcher[K, C]) cut(ctx context.Context) error {
	d.mu.Lock()
	calls := make([]*call[K, C], 0, d.active)
	for c := d.calls; c != nil; c = c.next {
		calls = append(calls, c)
	}
	d.mu.Unlock()
	if len(calls) == 0 {
		return nil
	}
	for _, c := range calls {
		c.cancel(errCut)
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-d.drained:
	case <-patience.C:
	}
	return context.Cause(ctx)
}

// accept adds a call.
func (d *Dispatcher[K, C]) accept(c *call[K, C], cfg *Config[K, C]) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.active-cfg.Capacity >= max(0, cfg.MaxQueue) {
		d.stats.Rejected++
		if d.closed {
			return ErrClosed
		}
		return ErrFull
	}
	d.stats.Calls++
	d.active++
	if c.next = d.calls; c.next != nil {
		c.next.prev = c
	}
	d.calls = c
	return nil
}

// complete removes a call and counts it once.
func (d *Dispatcher[K, C]) complete(c *call[K, C]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		d.calls = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	d.active--
	*c.end.of(&d.stats)++
	if d.drained != nil && d.active == 0 {
		close(d.drained)
	}
}

// caller returns the context of the caller, for a hook.
func caller[K comparable, C any](ctx context.Context) context.Context {
	if b, ok := ctx.(*brief[K, C]); ok {
		return b.parent
	}
	return ctx
}

// onHeld notes a cooldown and calls the hook.
func (d *Dispatcher[K, C]) onHeld(ctx context.Context, key string, until time.Time) {
	d.mu.Lock()
	if len(d.held) >= d.most { // at most twice as large as needed
		maps.DeleteFunc(d.held, func(key string, s span) bool { return key != "" && time.Now().After(s.until) })
		d.most = 2*len(d.held) + 1
	}
	s := d.held[key]
	if now := time.Now(); !now.Before(s.until) { // otherwise it is extended
		s.began = now
	}
	s.until = until
	d.held[key] = s
	d.mu.Unlock()
	if f := d.life.Hooks().Held; f != nil {
		d.call(caller[K, C](ctx), f, holdInfo(key, until))
	}
}

// A span is when a cooldown began, and when it ends.
type span struct{ began, until time.Time }

// heldSince reports whether a cooldown has begun since a time, and none is in force.
func (d *Dispatcher[K, C]) heldSince(key string, since time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.held[key]
	return !s.began.Before(since) && !s.until.After(time.Now())
}

func holdInfo(key string, until time.Time) Info {
	scope, account := scopeOf(key)
	return Info{Scope: scope, Account: account, Until: until}
}
