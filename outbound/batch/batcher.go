package batch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/outbound/jobs"
)

// A Batcher groups the calls to one method of a vendor. It is safe for concurrent use.
type Batcher[T, R any] struct {
	life  instance.Instance[Config[T, R], *Config[T, R]]
	up    groups.Lifetime
	queue groups.Queue
	store groups.Store
	line  string // the name in the engine
	own   bool   // Config.Engine is nil: Close drains the engine

	adding  sync.RWMutex  // so that no record is added to its own engine after Close has begun
	wake    chan struct{} // has an element if there may be something to take
	sized   int           // the FlushSize of the last look
	held    atomic.Int64  // the time until which the gate lets no call pass, in ns since 1970
	flying  atomic.Int64  // handlers
	known   atomic.Int64  // groups.State.Records of the last look
	spacing groups.Spacing

	added, calls, limited, split, sent, failed atomic.Uint64

	mu      sync.Mutex
	waiting map[string][]chan groups.Result // of the Calls that wait, by the IDs of their records
	asked   time.Time                       // when their results were last asked for
}

// New makes a batcher. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New[T, R any](cfg Config[T, R]) (*Batcher[T, R], error) {
	b := &Batcher[T, R]{
		own: cfg.Engine == nil, line: "batch:" + cfg.Name, wake: make(chan struct{}, 1), waiting: map[string][]chan groups.Result{},
	}
	engine := cmp.Or(cfg.Engine, jobs.Memory())
	b.queue, b.store = groups.Open(engine), groups.OpenStore(engine)
	if err := b.life.Init(lifeCycle[T, R](), cfg); err != nil {
		return nil, err
	}
	b.up.Init(ErrClosed, errRunning, &b.life.Listeners)
	source := registry.Source{Figures: b.figures, Rows: b.rows, Control: b.control}
	if err := b.life.Register(b, b.SetConfig, source); err != nil {
		return nil, err
	}
	return b, nil
}

// Name returns the name of the batcher.
func (b *Batcher[T, R]) Name() string { return b.life.Name() }

// Config returns the Config of New, or of the last SetConfig.
func (b *Batcher[T, R]) Config() Config[T, R] { return b.life.Load().Config }

func (b *Batcher[T, R]) settings() *Config[T, R] { return b.life.Load().Settings }

// SetConfig replaces the Config while the batcher is in use. An empty Name and a nil Registry and Engine stay as they
// are. For a change that is not possible, the error is a *core.ConfigError, and nothing changes.
func (b *Batcher[T, R]) SetConfig(cfg Config[T, R]) error {
	err := b.life.SetConfig(cfg, nil)
	b.poke()
	return err
}

// Add adds a record to the group of its option, and returns its ID. If it replaces a record with the same Key, it
// returns the ID of that one. The error is [ErrFull], [ErrClosed], a *core.ConfigError for a record larger than
// MaxBytes, or that of the engine. In the last case the record may have been added.
func (b *Batcher[T, R]) Add(ctx context.Context, record T) (id string, err error) {
	set := b.settings()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	payload, err := json.Marshal(record)
	if err != nil {
		return "", fmt.Errorf("batch: %w", err)
	}
	if set.MaxBytes > 0 && len(payload) > set.MaxBytes {
		return "", validate.Bad("batch: a record", fmt.Sprintf("%d bytes", len(payload)), fmt.Sprintf("must have at most %d, the MaxBytes of %s", set.MaxBytes, b.Name()))
	}
	r := groups.Record{ID: rand.Text(), Group: set.Option(record), Key: set.Key(record), Payload: payload}
	if b.own {
		b.adding.RLock()
		defer b.adding.RUnlock()
	}
	if b.up.Closed() {
		return "", ErrClosed
	}
	id, due, err := b.store.Add(ctx, b.line, r, groups.Rules{FlushSize: set.FlushSize, MaxPending: set.MaxPending})
	if errors.Is(err, groups.ErrFull) {
		return "", ErrFull
	}
	if b.up.EngineIs(ctx, err); err != nil {
		return r.ID, err
	}
	b.added.Add(1)
	if due || set.FlushAfter < leastPoll {
		b.poke()
	}
	return id, nil
}

// poke has Run look for due groups.
func (b *Batcher[T, R]) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Close accepts no more records. Without an Engine it makes all groups due, and waits until they are sent. With an Engine it waits for the
// calls in flight, and the other records stay in the Engine. Then Run returns. If ctx ends before that, the contexts of calls end. The
// error has the number of lost records, which include failed records and those of paused groups.
func (b *Batcher[T, R]) Close(ctx context.Context) error {
	b.adding.Lock()
	b.up.Shut()
	b.adding.Unlock()
	_ = b.life.Close() // always nil
	if !b.own {
		b.poke()
		return b.up.Close(ctx, nil)
	}
	_, _ = b.change(ctx, groups.Flush) // memory does not fail
	err := b.up.Close(ctx, b.work)
	b.mu.Lock()
	for id := range b.waiting { // Calls whose records are lost
		b.answer(groups.Result{ID: id, Err: ErrClosed})
	}
	b.mu.Unlock()
	if _, state, _ := b.store.Take(ctx, b.line, groups.Terms{FlushAfter: math.MaxInt64}); state.Records > 0 {
		return errors.Join(fmt.Errorf("batch: %s: closed without an Engine: %d records are lost", b.Name(), state.Records), err)
	}
	return err
}
