package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// refreshEvery is the time between two readings of the queues for Figures.
const refreshEvery = 5 * time.Second

// A Runner enqueues jobs and runs the handlers of its queues. It is safe for concurrent use.
type Runner struct {
	life   instance.Hooked[Config, map[string]Queue, Hooks]
	engine Engine
	closed chan struct{}
	once   sync.Once

	running  atomic.Bool
	failing  atomic.Bool // the engine, as of its latest reply to Feed, Hold or the reading
	counters counters
	seen     atomic.Pointer[[]QueueInfo] // the latest reading

	mu    sync.Mutex
	lanes map[string]*lane // of Feed, by queue
	holds map[string]hold  // the latest hold of this process, by queue
}

// A hold is that of a queue by this process.
type hold struct{ since, until time.Time }

func lifeCycle() *instance.Kind[Config, map[string]Queue] {
	return &instance.Kind[Config, map[string]Queue]{
		Kind: "jobs", Type: "jobs.Config", DefaultName: defaultName, Settings: settings,
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			check.That((cfg.Engine == nil || identity.Comparable(cfg.Engine)) && cfg.Engine == old.Engine, "Engine", "another one", "must stay as it is")
			was, is := slices.Sorted(maps.Keys(old.Queues)), slices.Sorted(maps.Keys(cfg.Queues))
			check.That(slices.Equal(was, is), "Queues", "other names", "must have the same names")
			before, after := settings(old), settings(cfg)
			for _, name := range is {
				n, ok := before[name]
				check.That(!ok || n.Concurrency == after[name].Concurrency, fmt.Sprintf("Queues[%q].Concurrency", name), after[name].Concurrency, "must stay as it is")
			}
		},
	}
}

// New makes a runner. It returns the errors of [Config.Validate], or an error if the name is in use
// in the registry.
func New(cfg Config) (*Runner, error) {
	r := &Runner{engine: cfg.Engine, closed: make(chan struct{}), lanes: map[string]*lane{}, holds: map[string]hold{}}
	if r.engine == nil {
		r.engine = NewMemory(0)
	}
	cfg.Queues = maps.Clone(cfg.Queues)
	if err := r.life.InitHooks(lifeCycle(), hooksOf, cfg); err != nil {
		return nil, err
	}
	if err := r.life.Register(r, r.SetConfig, registry.Source{Figures: r.figures, Events: r.events, Rows: r.rows, Control: r.control}); err != nil {
		return nil, err
	}
	return r, nil
}

// Name returns the name of the runner.
func (r *Runner) Name() string { return r.life.Name() }

// Engine returns the engine, to inspect and change its queues.
func (r *Runner) Engine() Engine { return r.engine }

// Config returns the Config of New or of the last SetConfig, as it was given except for a Name and
// Registry that stayed.
func (r *Runner) Config() Config {
	cfg := r.life.Load().Config
	cfg.Queues = maps.Clone(cfg.Queues)
	return cfg
}

// SetConfig replaces the Config while the runner is in use. Attempts that run keep their Timeout. An
// empty Name and a nil Registry stay as they are: another one is a [*core.ConfigError], as are
// another Engine, queues of other names, another Concurrency, and the errors of [Config.Validate],
// and nothing changes.
func (r *Runner) SetConfig(cfg Config) error {
	cfg.Queues = maps.Clone(cfg.Queues)
	return r.life.SetConfig(cfg, nil)
}

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at that moment
// are not interrupted.
func (r *Runner) Observe(h Hooks) (cancel func()) { return r.life.Observe(h) }

// Close removes the runner from its registry. Run ends as if its context had ended; Enqueue, Feed and
// a later Run return [ErrClosed]. It does not wait for Run, and does not close the engine. A second
// Close does nothing.
func (r *Runner) Close() error {
	r.once.Do(func() {
		close(r.closed)
		_ = r.life.Close() // always nil
	})
	return nil
}

func (r *Runner) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// Enqueue adds a job, and returns its ID. When it returns nil, the engine has the job. The error is
// [ErrExists] if the ID is in use, [ErrFull], [ErrClosed], a [*core.ConfigError] for each bad field,
// or that of the engine: then the job may have been added nevertheless. Repeat the call with the ID
// that was returned: while the job is there, and for its Retain, it is not added twice, unless it has
// failed meanwhile.
func (r *Runner) Enqueue(ctx context.Context, job Job) (id string, err error) {
	if r.isClosed() {
		return "", ErrClosed
	}
	if err := job.validate(); err != nil {
		return "", err
	}
	drawn := job.ID == ""
	if drawn {
		job.ID = rand.Text()
	}
	job.Kind, job.MaxAttempts = cmp.Or(job.Kind, defaultKind), cmp.Or(job.MaxAttempts, defaultMaxAttempts)
	job.Attempt, job.Losses = 0, 0
	switch err := r.engine.Enqueue(ctx, job); {
	case err == nil, drawn && errors.Is(err, ErrExists): // the engine has repeated a command whose reply was lost
		r.counters.enqueued.Add(1)
		return job.ID, nil
	case errors.Is(err, ErrExists):
		r.counters.duplicates.Add(1)
		return job.ID, err
	default:
		return job.ID, err
	}
}

// Run runs the handlers of the Queues until ctx ends or Close is called. Then no other job begins,
// the contexts of running handlers end after Config.Grace, and Run returns when the handlers have
// returned: nil, or the errors of the engine, one of which ends Run at once.
func (r *Runner) Run(ctx context.Context) error {
	if r.isClosed() {
		return ErrClosed
	}
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handlers, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	var group sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	for name, q := range r.life.Load().Settings {
		group.Go(func() {
			handle := func(ctx context.Context, job Job) Result { return r.handle(ctx, handlers, name, job) }
			if err := r.engine.Run(ctx, name, q.Concurrency, handle); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
				cancel()
			}
		})
	}
	group.Go(func() { r.watch(ctx) })
	group.Go(func() {
		select {
		case <-ctx.Done():
		case <-r.closed:
			cancel()
		}
	})
	drained := make(chan struct{})
	var grace sync.WaitGroup
	grace.Go(func() { r.grace(ctx, drained, stop) })
	group.Wait()
	close(drained)
	grace.Wait()
	return errors.Join(failures...)
}

// grace ends the contexts of the handlers Grace after the end of ctx.
func (r *Runner) grace(ctx context.Context, drained <-chan struct{}, stop context.CancelFunc) {
	select {
	case <-drained:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(max(0, cmp.Or(r.life.Load().Config.Grace, defaultGrace)))
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
		stop()
	}
}

// watch reads the queues for Figures until ctx ends.
func (r *Runner) watch(ctx context.Context) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		if s, err := r.Snapshot(ctx); err == nil {
			r.seen.Store(&s.Queues)
			r.engineExecutes(ctx)
		} else if ctx.Err() == nil {
			r.engineFails(ctx, Event{Err: err})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
