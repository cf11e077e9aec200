package batch

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/validate"
)

// A Batcher groups the calls to one method of a vendor. It is safe for concurrent use.
type Batcher[T, R any] struct {
	life    instance.Hooked[Config[T, R], *setting[T, R], Hooks]
	store   Store
	typed   bool // the store is in memory, and keeps the records as they are
	method  string
	unclaim func()
	process string // unique
	serial  atomic.Uint64

	draining, closed atomic.Bool
	running          atomic.Bool
	done             chan struct{}
	once             sync.Once
	wake             chan struct{} // has an element if a group may be due
	flying           atomic.Int64  // calls of Run
	trial            chan struct{} // has an element while a suspect is sent

	mu        sync.Mutex
	waiters   map[string]chan<- Reply
	receiving bool

	storeDown atomic.Bool
	known     atomic.Int64 // State.Records

	grouped                                          stripe.Counter // added, and not replaced
	replaced, rejected, direct                       atomic.Uint64
	answered, callsFailed, splits, abandoned, unused atomic.Uint64
	sent, failed, retried, redelivered, lost, errors atomic.Uint64
}

func lifeCycle[T, R any]() *instance.Kind[Config[T, R], *setting[T, R]] {
	return &instance.Kind[Config[T, R], *setting[T, R]]{
		Kind: "batch", Type: "batch.Config", DefaultName: defaultName, Settings: settings[T, R],
		Fields: func(c *Config[T, R]) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config[T, R]) {
			check.That(cfg.Method == old.Method, "Method", cfg.Method, "must stay "+strconv.Quote(old.Method))
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
		},
	}
}

// New makes a batcher. Its records are sent while [Batcher.Run] runs. It returns the errors of
// [Config.Validate], a [*core.ConfigError] if the Config has neither a Name nor a Method, and another
// batcher of this process without both has its Store and is not closed, or an error if the name is in
// use in the registry.
func New[T, R any](cfg Config[T, R]) (*Batcher[T, R], error) {
	b := &Batcher[T, R]{
		store: cfg.Store, typed: cfg.Store == nil, process: rand.Text(),
		done: make(chan struct{}), wake: make(chan struct{}, 1), trial: make(chan struct{}, 1), waiters: map[string]chan<- Reply{},
	}
	if b.typed {
		b.store = newMemory()
	}
	if err := b.life.InitHooks(lifeCycle[T, R](), hooksOf[T, R], cfg); err != nil {
		return nil, err
	}
	b.method = b.setting().Method
	if err := b.claim(&cfg); err != nil {
		return nil, err
	}
	if err := b.life.Register(b, b.SetConfig, registry.Source{Figures: b.figures, Events: b.events, Rows: b.rows, Control: b.act}); err != nil {
		b.unclaim()
		return nil, err
	}
	return b, nil
}

// Name returns the name of the batcher.
func (b *Batcher[T, R]) Name() string { return b.life.Name() }

// Method returns the vendor's method.
func (b *Batcher[T, R]) Method() string { return b.method }

// Config returns the Config of New or of the last SetConfig, as it was given except for a Name and
// Registry that stayed.
func (b *Batcher[T, R]) Config() Config[T, R] { return b.life.Load().Config }

func (b *Batcher[T, R]) setting() *setting[T, R] { return b.life.Load().Settings }

// SetConfig replaces the Config while the batcher is in use. Batches that are in flight, or wait to be
// sent again, keep their records. An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are another Method or Store, and the errors of [Config.Validate], and
// nothing changes.
func (b *Batcher[T, R]) SetConfig(cfg Config[T, R]) error {
	err := b.life.SetConfig(cfg, nil)
	b.poke()
	return err
}

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at that moment
// are not interrupted.
func (b *Batcher[T, R]) Observe(h Hooks) (cancel func()) { return b.life.Observe(h) }

// Drain accepts no more records, marks all of them as due, and waits until they are sent, within the
// limit of the Pacer, also those of other processes. Run must run meanwhile, in this process or
// another one. The error is the cause of ctx, or that of the store, or that records of paused groups
// remain.
func (b *Batcher[T, R]) Drain(ctx context.Context) error {
	b.draining.Store(true)
	if err := b.Flush(ctx); err != nil {
		return err
	}
	for {
		state, err := b.ready(ctx)
		switch {
		case err != nil:
			return err
		case state.Due || state.Next >= 0 || b.flying.Load() > 0:
		case state.Records > 0:
			return fmt.Errorf("batch: %s: %d records remain in paused groups", b.Name(), state.Records)
		default:
			return nil
		}
		if err := b.sleep(ctx, drainPoll); err != nil {
			return err
		}
	}
}

const drainPoll = 50 * time.Millisecond

// Close removes the batcher from its registry, and accepts no more records. Run returns when its
// calls in flight have ended, and Calls that wait get [ErrClosed]. Records that were not sent stay in
// the Store, for the next start: to send them, call [Batcher.Drain] before. Without a Store they
// are lost: the error has their number, with those of calls in flight, which may succeed. A second
// Close does nothing.
func (b *Batcher[T, R]) Close() error {
	var err error
	b.once.Do(func() {
		b.closed.Store(true)
		close(b.done)
		b.unclaim()
		_ = b.life.Close() // always nil
		if b.typed {
			state, _ := b.store.Ready(context.Background(), b.method, maxPeriod) // memory does not fail
			if n := state.Records; n > 0 {
				err = fmt.Errorf("batch: %s: %d records were not sent: they are lost without a Store", b.Name(), n)
			}
		}
	})
	return err
}

// poke lets Run look for due groups.
func (b *Batcher[T, R]) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// newID returns a unique string.
func (b *Batcher[T, R]) newID() string {
	var text [48]byte
	id := append(text[:0], b.process...)
	id = append(id, '-')
	return string(strconv.AppendUint(id, b.serial.Add(1), 36))
}
