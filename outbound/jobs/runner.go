package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
)

// A Runner enqueues jobs, and runs the handlers of its queues. It is safe for concurrent use.
type Runner struct {
	life  instance.Instance[Config, map[string]Queue]
	up    groups.Lifetime
	queue groups.Queue

	enqueued, skipped atomic.Uint64
	ends              [groups.Failed + 1]atomic.Uint64
	active            atomic.Int64
	spacing           groups.Spacing
	seen              atomic.Value // the []groups.Counts of the queues, in the order of their names

	mu    sync.Mutex
	lanes map[string]*lane // of Feed, by queue
}

// New makes a runner. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New(cfg Config) (*Runner, error) {
	r := &Runner{lanes: map[string]*lane{}, queue: groups.Open(cmp.Or(cfg.Engine, Memory()))}
	r.up.Init(ErrClosed, errRunning, &r.life.Listeners)
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

// SetConfig replaces the Config while the runner is in use. Running attempts keep their Timeout. An empty Name and a
// nil Registry and Engine stay as they are. For a change that is not possible, the error is a *core.ConfigError, and
// nothing changes.
func (r *Runner) SetConfig(cfg Config) error {
	cfg.Queues = maps.Clone(cfg.Queues)
	return r.life.SetConfig(cfg, nil)
}

// Enqueue adds a job, and returns its ID. The error is [ErrExists], [ErrFull], [ErrClosed], a *core.ConfigError, the cause of ctx, or that
// of the engine. In the last two cases the job may have been added, or a failed one with its ID deleted: enqueue it again with the returned
// ID.
func (r *Runner) Enqueue(ctx context.Context, job Job) (id string, err error) {
	if r.up.Closed() {
		return "", ErrClosed
	}
	if ctx.Err() != nil {
		return job.ID, context.Cause(ctx)
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
	case err == nil, drawn && errors.Is(err, ErrExists): // a command was repeated because its reply was lost
		r.enqueued.Add(1)
		return job.ID, nil
	case errors.Is(err, ErrExists):
		r.skipped.Add(1)
		return job.ID, err
	default:
		return job.ID, err
	}
}

// Run runs the handlers until ctx ends or Close is called. Then no further job begins, and Run returns nil when the
// handlers have returned. An error of the engine does not end it.
func (r *Runner) Run(ctx context.Context) error {
	grace := func() time.Duration { return max(0, cmp.Or(r.life.Load().Config.Grace, defaultGrace)) }
	return r.up.Run(ctx, grace, func(stopping, working context.Context) {
		var workers, watcher sync.WaitGroup
		now := r.life.Load()
		watching, end := context.WithCancel(stopping)
		await := func() {
			select {
			case <-stopping.Done():
			case <-r.up.Closing:
			}
		}
		if now.Config.Registry != nil && len(now.Settings) > 0 {
			watcher.Go(func() { r.watch(watching) })
		}
		for name, q := range now.Settings {
			w := groups.Worker{Concurrency: q.Concurrency}
			w.Handle = func(ctx context.Context, e groups.Entry) groups.Verdict { return r.handle(ctx, stopping, working, e) }
			taking, stop := context.WithCancel(stopping)
			workers.Go(func() { r.queue.Run(taking, name, w) })
			workers.Go(func() {
				defer stop()
				await()
				if m, ok := r.queue.(*memory); ok { // what is due runs first
					m.drain(stopping, name)
				}
			})
		}
		await() // there may be no queues
		workers.Wait()
		end()
		watcher.Wait()
	})
}

// Close accepts no more jobs. With Memory it waits until the jobs that are due have run, and those that a limit or a breaker has refused;
// with another engine, until the running handlers have returned. Then Run returns. If ctx ends before that, the contexts of handlers end.
// Without an Engine, the jobs that are left are lost, those that wait for their time or for a Run included: the error has their number.
func (r *Runner) Close(ctx context.Context) error {
	_ = r.life.Close() // always nil
	err, lost := r.up.Close(ctx, nil), 0
	if m, ok := r.queue.(*memory); ok && r.life.Load().Config.Engine == nil {
		lost = m.close()
	}
	switch {
	case err != nil:
		return fmt.Errorf("jobs: closed before all was done, %d jobs are lost: %w", lost, err)
	case lost > 0:
		return fmt.Errorf("jobs: closed without an Engine, %d jobs are lost", lost)
	}
	return nil
}
