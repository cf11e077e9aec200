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

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
)

// A Runner enqueues jobs, and runs the handlers of its queues. It is safe for concurrent use.
type Runner struct {
	life    instance.Instance[Config, map[string]Queue]
	queue   groups.Queue
	closing chan struct{} // closed by the first Close
	cut     chan struct{} // closed when Close no longer waits
	once    [2]sync.Once

	enqueued, skipped atomic.Uint64
	ends              [groups.Failed + 1]atomic.Uint64
	active            atomic.Int64
	spacing           groups.Spacing
	failing           atomic.Bool                     // the engine, at its last reply
	seen              atomic.Pointer[[]groups.Counts] // of the queues, by name

	mu    sync.Mutex
	ended chan struct{}    // closed when Run returns; nil if it does not run
	lanes map[string]*lane // of Feed, by queue
}

// New makes a runner. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New(cfg Config) (*Runner, error) {
	r := &Runner{closing: make(chan struct{}), cut: make(chan struct{}), lanes: map[string]*lane{}}
	r.queue = groups.Open(cmp.Or(cfg.Engine, Memory()))
	cfg.Queues = maps.Clone(cfg.Queues)
	if err := r.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	source := registry.Source{Figures: r.figures, Rows: r.rows, Control: r.control}
	if err := r.life.Register(r, r.SetConfig, source); err != nil {
		return nil, err
	}
	return r, nil
}

// Name returns the name of the runner.
func (r *Runner) Name() string { return r.life.Name() }

// Config returns the Config of New, or of the last SetConfig.
func (r *Runner) Config() Config {
	cfg := r.life.Load().Config
	cfg.Queues = maps.Clone(cfg.Queues)
	return cfg
}

// SetConfig replaces the Config while the runner is in use. Attempts that run keep their Timeout. An empty Name and nil
// Registry and Engine stay as they are; what cannot be changed is a *core.ConfigError, and nothing changes.
func (r *Runner) SetConfig(cfg Config) error {
	cfg.Queues = maps.Clone(cfg.Queues)
	return r.life.SetConfig(cfg, nil)
}

// Enqueue adds a job, and returns its ID. The error is [ErrExists], [ErrFull], [ErrClosed], a *core.ConfigError, or that
// of the engine; then the job may have been added. Enqueue it again with the ID that was returned.
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
	job.MaxAttempts, job.Attempt = cmp.Or(job.MaxAttempts, defaultMaxAttempts), 0
	most := cmp.Or(r.life.Load().Config.MaxPending, defaultPending)
	switch err := r.queue.Enqueue(ctx, groups.Job(job), most); {
	case err == nil, drawn && errors.Is(err, ErrExists): // the engine has repeated a command whose reply was lost
		r.enqueued.Add(1)
		return job.ID, nil
	case errors.Is(err, ErrExists):
		r.skipped.Add(1)
		return job.ID, err
	default:
		return job.ID, err
	}
}

// Run runs the handlers until ctx ends or Close is called. Then no other job begins, and Run returns nil when the handlers
// have returned. An engine that fails does not end it.
func (r *Runner) Run(ctx context.Context) error {
	ended := make(chan struct{})
	if err := r.begin(ended); err != nil {
		return err
	}
	stopping, stop := context.WithCancel(ctx)
	handlers, cut := context.WithCancel(context.WithoutCancel(ctx))
	var workers, helpers sync.WaitGroup
	for name, q := range r.life.Load().Settings {
		w := groups.Worker{Concurrency: q.Concurrency, Closing: r.closing}
		w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict { return r.handle(ctx, stopping, handlers, e) }
		workers.Go(func() { r.queue.Run(stopping, name, w) })
	}
	drained := make(chan struct{})
	helpers.Go(func() { r.limit(ctx, drained, stop, cut) })
	if r.life.Load().Config.Registry != nil {
		helpers.Go(func() { r.watch(stopping, drained) })
	}
	workers.Wait()
	close(drained)
	stop()
	cut()
	helpers.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = nil
	close(ended)
	return nil
}

// begin begins a Run, unless there is one, or the runner is closed.
func (r *Runner) begin(ended chan struct{}) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.isClosed():
		return ErrClosed
	case r.ended != nil:
		return errRunning
	}
	r.ended = ended
	return nil
}

// limit ends the contexts of handlers Grace after the end of ctx, or when Close does not wait for them.
func (r *Runner) limit(ctx context.Context, drained <-chan struct{}, stop, cut func()) {
	select {
	case <-drained:
		return
	case <-r.cut:
		stop()
	case <-ctx.Done():
		timer := time.NewTimer(max(0, cmp.Or(r.life.Load().Config.Grace, defaultGrace)))
		defer timer.Stop()
		select {
		case <-drained:
		case <-r.cut:
		case <-timer.C:
		}
	}
	cut()
}

func (r *Runner) isClosed() bool {
	select {
	case <-r.closing:
		return true
	default:
		return false
	}
}

// Close accepts no more jobs. With Memory it waits until those that are due have run, with another engine until the
// running handlers have returned; then Run returns. If ctx ends before, the contexts of handlers end, and the error has
// the number of jobs that are lost.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	ended := r.ended
	r.once[0].Do(func() { close(r.closing) })
	r.mu.Unlock()
	_ = r.life.Close() // always nil
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	r.once[1].Do(func() { close(r.cut) })
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
	lost := 0
	if m, ok := r.queue.(*memory); ok {
		lost = m.left(slices.Collect(maps.Keys(r.life.Load().Settings)))
	}
	return fmt.Errorf("jobs: closed before all was done, %d jobs are lost: %w", lost, context.Cause(ctx))
}
