package bulkhead

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/validate"
)

// A Bulkhead bounds the calls in flight, by key. It is safe for concurrent use.
type Bulkhead struct {
	life    instance.Instance[Config, struct{}]
	base    time.Time // all times are counted from here
	_       [64]byte
	unkeyed cell // of the empty key; it is never forgotten
	_       [64]byte
	byKey   sync.Map // the other cells: string to *cell

	mu        sync.Mutex // of changes of byKey
	cells     []*cell    // the same
	hand      int        // where the search for idle keys continues
	top       int        // the highest limit of all cells
	forgotten uint64     // calls admitted by forgotten cells
	closed    atomic.Bool

	refused                           stripe.Counter
	waited, canceled, lowered, raised atomic.Uint64
	storeErrors, lost                 atomic.Uint64
	changes                           announce.Queue[change]
	waits                             registry.Histogram // of admitted calls

	table   Table           // nil without a Store
	failing atomic.Bool     // StoreFailed is called, and StoreRecovered is not yet
	ended   context.Context //nolint:containedctx // ends with Close; nil without a Store
	end     context.CancelFunc
}

func lifeCycle() *instance.Kind[Config, struct{}] {
	return &instance.Kind[Config, struct{}]{
		Kind: "bulkhead", Type: "bulkhead.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
		},
	}
}

// New makes a bulkhead. It returns the errors of [Config.Validate], of the Store, or of
// a Registry that has the name already.
func New(cfg Config) (*Bulkhead, error) {
	b := &Bulkhead{base: time.Now(), top: cfg.limit()}
	if err := b.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if err := b.openTable(); err != nil {
		return nil, err
	}
	b.unkeyed.init(b, "")
	if err := b.life.Register(b, b.SetConfig, registry.Source{Figures: b.figures}); err != nil {
		return nil, err
	}
	return b, nil
}

// Name returns the name of the bulkhead.
func (b *Bulkhead) Name() string { return b.life.Name() }

// Config returns the Config of New or of the last SetConfig, as it was given except for a
// Name and Registry that stayed.
func (b *Bulkhead) Config() Config { return *b.config() }

func (b *Bulkhead) config() *Config { return &b.life.Load().Config }

// SetConfig replaces the Config while the bulkhead is in use. If the limit is lowered,
// calls in flight continue, and no call is admitted until enough of them have ended. If
// it is raised, waiters are admitted at once; a limit that Backoff has lowered stays, as
// far as the new bounds permit. Waiters keep their deadline and their place; one that is
// heavier than the new limit is rejected. Calls that wait for permits of the Store notice
// the new limit within a second. An empty Name and a nil Registry stay as they are: another
// one is a [*core.ConfigError], as are another Store and the errors of [Config.Validate],
// and nothing changes.
func (b *Bulkhead) SetConfig(cfg Config) error {
	if err := b.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	b.adopt()
	return nil
}

// adopt applies the Config in use to all cells.
func (b *Bulkhead) adopt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	cfg := b.config() // one for all, also if the next SetConfig is under way
	b.unkeyed.adopt(cfg, b.top)
	for _, c := range b.cells {
		c.adopt(cfg, b.top)
	}
	b.top = cfg.limit()
}

// Close ends all waits, and removes the bulkhead from its registry. Calls that wait, and
// every later Acquire, get [core.ErrClosed]. Calls in flight continue. A second Close does
// nothing; the error is always nil.
func (b *Bulkhead) Close() error {
	_ = b.life.Close() // always nil
	if b.end != nil {
		b.end()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed.Store(true)
	b.unkeyed.close()
	for _, c := range b.cells {
		c.close()
	}
	return nil
}

// Acquire admits a call of weight 1: see [Bulkhead.AcquireN].
func (b *Bulkhead) Acquire(ctx context.Context, key string) (Permit, error) {
	if key != "" {
		return b.AcquireN(ctx, key, 1)
	}
	c := &b.unkeyed // as in acquire, without a call: BenchmarkAcquire
	if full := c.full.Load(); full != nil && c.word.refuses(1) && !b.life.Calls() {
		b.refused.Inc()
		return Permit{}, full
	}
	generation := c.generation.Load()
	if ok, _ := c.word.try(1); ok {
		return Permit{cell: c, ctx: ctx, generation: generation, weight: 1}, nil
	}
	return c.acquire(ctx, 1)
}

// AcquireN admits a call that needs weight permits of a key. If they are not free,
// AcquireN waits. The error is a [*FullError] if the call waited for MaxWait, if the queue
// is full, if the weight is above Config.Limit, or if MaxKeys other keys are in use;
// [core.ErrClosed]; the cause of ctx if it ends during the wait; or a [*core.ConfigError] if
// weight is below 1. If the permits are free, ctx may have ended. A call that is heavier
// than a limit that Backoff has lowered runs alone.
//
// With a Store, the permits are taken in it too, so ctx must not have ended. If the Store
// fails and OnStoreError is [Deny], the error matches [ErrStore].
func (b *Bulkhead) AcquireN(ctx context.Context, key string, weight int) (Permit, error) {
	if weight < 1 {
		return Permit{}, &core.ConfigError{Field: "bulkhead.AcquireN weight", Value: weight, Reason: "must be >= 1"}
	}
	c := &b.unkeyed
	if key != "" {
		c = b.cell(key)
	}
	switch {
	case c == nil:
		return Permit{}, b.rejected(ctx, key, weight, 0, &FullError{Name: b.Name(), Key: strings.Clone(key), noKey: true, after: -1})
	case weight > mostPermits:
		return b.enter(ctx, c, weight)
	}
	return c.acquire(ctx, weight)
}

// acquire admits or rejects a call by the word, if that is enough.
func (c *cell) acquire(ctx context.Context, weight int) (Permit, error) {
	if full := c.full.Load(); full != nil && weight == 1 && c.word.refuses(1) && !c.bulkhead.life.Calls() {
		c.bulkhead.refused.Inc()
		return Permit{}, full
	}
	generation := c.generation.Load() // an older one is not counted, so this is safe
	if c.word.take(weight) {
		return Permit{cell: c, ctx: ctx, generation: generation, weight: int32(weight)}, nil
	}
	return c.bulkhead.enter(ctx, c, weight)
}

// enter is AcquireN where the word alone does not decide.
func (b *Bulkhead) enter(ctx context.Context, c *cell, weight int) (Permit, error) {
	switch p, w, err := c.join(ctx, weight); {
	case w != nil:
		return c.await(ctx, w)
	case err != nil:
		return Permit{}, b.rejected(ctx, c.key, weight, 0, err)
	case p.cell != nil && b.table != nil:
		return c.share(ctx, p, b.now(), false)
	case p.cell != nil:
		return p, nil
	}
	b.mu.Lock()   // the key was forgotten: until its cell is removed
	b.mu.Unlock() //nolint:staticcheck // only the wait counts
	return b.AcquireN(ctx, c.key, weight)
}

// rejected counts a call that is not admitted.
func (b *Bulkhead) rejected(ctx context.Context, key string, weight int, waited time.Duration, err error) error {
	switch err.(type) { //nolint:errorlint // it is not wrapped yet
	case *FullError, *storeError:
	default:
		b.canceled.Add(1)
		return err
	}
	b.refused.Inc()
	b.emitCall(ctx, "call rejected, since the bulkhead is full", key, weight, waited)
	return err
}

func (b *Bulkhead) now() time.Duration { return time.Since(b.base) }
