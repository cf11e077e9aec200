package bulkhead

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
)

// A Bulkhead bounds the calls in flight. It is safe for concurrent use. It is a [core.Mechanism].
type Bulkhead struct {
	life       instance.Instance[Config, struct{}]
	overridden atomic.Bool // Override was called
	_          [64]byte
	unkeyed    cell // of the empty key; it is never evicted
	_          [64]byte
	byKey      sync.Map // the other cells: string to *cell

	mu    sync.Mutex // for changes of byKey
	cells []*cell    // unkeyed, and then the cells of byKey
	hand  int        // where the search for an idle key continues

	forgotten uint64 // calls admitted by evicted cells

	refused                   stripe.Counter
	canceled, lowered, raised atomic.Uint64
	changes                   announce.Queue
	waits                     registry.Histogram // of admitted calls
}

// New makes a bulkhead. It returns the errors of [Config.Validate], or an error if the name is in use in the registry.
func New(cfg Config) (*Bulkhead, error) {
	b := &Bulkhead{}
	kind := &instance.Kind[Config, struct{}]{
		Kind: "bulkhead", Type: "bulkhead.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
	}
	if err := b.life.Init(kind, cfg); err != nil {
		return nil, err
	}
	b.unkeyed.init(b, "")
	b.cells = []*cell{&b.unkeyed}
	if err := b.life.Register(b, b.SetConfig, registry.Source{Figures: b.figures}); err != nil {
		return nil, err
	}
	return b, nil
}

// Acquire admits a call that needs n permits of a key. If they are not free, it waits. If they are free, it does not look at ctx. The error
// is a [*FullError], core.ErrClosed, the cause of ctx if it ends during the wait, or a [*core.ConfigError] if n is below 1.
func (b *Bulkhead) Acquire(ctx context.Context, key string, n int) (Permit, error) {
	c := &b.unkeyed
	if key != "" {
		known, _ := b.byKey.Load(key)
		if c, _ = known.(*cell); c == nil {
			c = b.open(key)
		}
		if c == nil {
			full := &FullError{Name: b.Name(), Key: strings.Clone(key), reason: "full: every key is in use", after: -1}
			return Permit{}, b.rejected(ctx, full.Key, n, 0, full)
		}
	}
	if n == 1 && c.word.none() && b.config().MaxQueue < 0 && !b.overridden.Load() && !b.life.Calls() {
		b.refused.Inc() // without the lock (BenchmarkAcquire/full)
		return Permit{}, &c.full
	}
	generation := c.generation.Load() // before the take: if outdated by then, the result is not counted
	if c.word.take(n) {
		return Permit{cell: c, ctx: ctx, generation: generation, weight: int32(n)}, nil
	}
	return c.enter(ctx, n)
}

// open returns the cell of a key, and makes one if there is none. It returns nil if there are MaxKeys keys, and none of the next 64 is
// idle.
func (b *Bulkhead) open(key string) *cell {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.byKey.Load(key); ok {
		return known.(*cell)
	}
	if b.unkeyed.gone != nil { // the bulkhead is closed
		return &b.unkeyed
	}
	for looks := 0; len(b.cells) > b.config().maxKeys(); looks++ {
		last := len(b.cells) - 1
		b.hand = b.hand%last + 1
		switch old := b.cells[b.hand]; {
		case looks == 64:
			return nil
		case old.leave(errForgotten):
			looks = 0
			b.byKey.Delete(old.full.Key)
			b.cells[b.hand], b.cells[last] = b.cells[last], nil
			b.cells = b.cells[:last]
		}
	}
	c := &cell{}
	c.init(b, strings.Clone(key))
	b.cells = append(b.cells, c)
	b.byKey.Store(c.full.Key, c)
	return c
}

// Do runs operation with one permit of a key, in the caller's goroutine. The permit is returned when operation returns, panics or ends its
// goroutine. Unless it returns, its outcome is core.Ignored.
func Do[T any](ctx context.Context, b *Bulkhead, key string, operation func(context.Context) (T, error)) (T, error) {
	permit, err := b.Acquire(ctx, key, 1)
	if err != nil {
		return *new(T), err
	}
	outcome := core.Ignored
	defer func() { permit.Done(outcome) }()
	result, err := operation(ctx)
	switch cfg := b.configOf(ctx); {
	case b.config().Backoff == 0:
	case cfg.Classify != nil:
		outcome = cfg.Classify(ctx, result, err)
	default:
		outcome = blame.Judge(ctx, err)
	}
	return result, err
}

// Run does the same as [Do] with the key "". It makes the Bulkhead a core.Mechanism.
func (b *Bulkhead) Run(ctx context.Context, next core.Next) (any, error) {
	return Do(ctx, b, "", next.Run)
}

// Override returns a context under which f changes the Config for calls of this bulkhead. Only MaxWait, MaxQueue and Classify apply to a
// call; changes of other fields have no effect. Overrides nest; the innermost is applied last.
func (b *Bulkhead) Override(ctx context.Context, f func(*Config)) context.Context {
	b.overridden.Store(true)
	return override.Context(ctx, b, f)
}

// configOf returns the Config for a call. Use it only for the fields that an override can change.
func (b *Bulkhead) configOf(ctx context.Context) *Config { return override.Apply(ctx, b, b.config()) }

// Name returns the name of the bulkhead.
func (b *Bulkhead) Name() string { return b.life.Name() }

// Config returns the Config of New or of the last SetConfig.
func (b *Bulkhead) Config() Config { return *b.config() }

func (b *Bulkhead) config() *Config { return &b.life.Load().Config }

// SetConfig replaces the Config while the bulkhead is in use. Calls in flight continue, and waiters keep their places; a waiter that needs
// more permits than the new Limit is admitted alone. A limit that Backoff has lowered stays, within the new bounds. An empty Name and a nil
// Registry stay as they are. Another Name or Registry, and each error of [Config.Validate], is a [*core.ConfigError], and nothing changes.
func (b *Bulkhead) SetConfig(cfg Config) error {
	if err := b.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.cells {
		c.lock() // adopts the Config
		c.unlock()
	}
	return nil
}

// Close removes the bulkhead from its registry, and ends every wait. Later calls get [core.ErrClosed]; calls in flight continue.
func (b *Bulkhead) Close() error {
	_ = b.life.Close() // always nil
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.cells {
		c.leave(core.ErrClosed)
	}
	return nil
}

// A Permit is an admitted call. Only the goroutine of the call may use it.
type Permit struct {
	// Four words in four fields: the compiler keeps no larger struct in registers (BenchmarkAcquire/free).
	cell       *cell
	ctx        context.Context //nolint:containedctx // for the events; a permit is part of one call
	generation uint32          // of the limit when the call was admitted
	weight     int32
}

// Done ends the call and returns its permits. Config.Backoff uses the outcome. A second Done, or one of the zero Permit, does nothing.
func (p *Permit) Done(outcome core.Outcome) {
	ended := *p
	if p.cell = nil; ended.cell != nil {
		ended.cell.done(ended, outcome)
	}
}

func (c *cell) done(p Permit, outcome core.Outcome) {
	if outcome != core.Ignored && c.bulkhead.config().Backoff > 0 {
		c.lock()
		c.adapt(p, outcome)
		c.word.add(int(p.weight))
		c.unlock()
		c.bulkhead.changes.Drain()
	} else if c.word.add(int(p.weight))&locked != 0 {
		c.lock()
		c.unlock() // serves the waiters
	}
}
