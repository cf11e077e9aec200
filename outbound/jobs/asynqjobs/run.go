package asynqjobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/gresil/gresil/internal/groups"
)

const maxError = 1000 // bytes of the text of an error

// A line is one call of Run. It is the handler of its asynq servers.
type line struct {
	groups.Worker

	engine   *engine
	queue    string
	work     chan struct{}   // has an element when there is work
	stopping context.Context //nolint:containedctx // ends when no further job is taken
	places   chan struct{}   // has an element for each job that runs
	ending   sync.WaitGroup  // of servers
}

// Run runs an asynq server for this queue only, while the queue has work.
func (e *engine) Run(ctx context.Context, queue string, w groups.Worker) {
	l := &line{Worker: w, engine: e, queue: queue, work: make(chan struct{}, 1), stopping: ctx, places: make(chan struct{}, w.Concurrency)}
	defer e.join(l)() //nolint:contextcheck // all lines are looked at together
	defer l.ending.Wait()
	for ctx.Err() == nil {
		select {
		case <-l.work:
			l.serve(ctx)
		case <-ctx.Done():
		}
	}
}

// serve runs a server until there is no work for a while.
func (l *line) serve(ctx context.Context) {
	base := context.WithoutCancel(ctx)
	server := asynq.NewServerFromRedisClient(l.engine.redis, asynq.Config{
		Concurrency: l.Concurrency, Queues: map[string]int{l.queue: 1}, BaseContext: func() context.Context { return base },
		TaskCheckInterval: min(busyPoll, l.engine.config.Poll), DelayedTaskCheckInterval: scheduledPoll, ShutdownTimeout: time.Minute,
		RetryDelayFunc: retryDelay, IsFailure: isFailure,
		Logger: &logger{l.engine.config.Logger}, LogLevel: asynq.InfoLevel,
	})
	_ = server.Start(l) // nil for a new server
	ticker := time.NewTicker(idleAfter / 4)
	defer ticker.Stop()
	for last := time.Now(); ctx.Err() == nil && (len(l.places) > 0 || time.Since(last) < idleAfter); {
		select {
		case <-ctx.Done():
		case <-l.work:
			last = time.Now()
		case <-ticker.C:
		}
	}
	server.Stop()
	l.ending.Go(func() { // it can have taken a job meanwhile, and that one can take long
		for runs := true; runs; runs = len(l.places) > 0 { // asynq keeps a server in memory for as long as Shutdown could wait
			time.Sleep(busyPoll)
		}
		server.Shutdown()
	})
}

// ProcessTask implements asynq.Handler.
func (l *line) ProcessTask(ctx context.Context, task *asynq.Task) error {
	soon, cancel := context.WithTimeout(ctx, inline)
	defer cancel()
	select { // the servers of a line have more places together than it has
	case l.places <- struct{}{}:
		defer func() { <-l.places }()
	case <-soon.Done(): // another process may have one
		return &outcome{groups.Verdict{End: groups.Limited, At: time.Now()}}
	}
	id, _ := asynq.GetTaskID(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	maxRetry, _ := asynq.GetMaxRetry(ctx)
	e := groups.Entry{Job: jobOf(id, l.queue, task.Payload(), task.Headers(), retried, maxRetry)}
	l.wait(ctx, e.NotBefore) // it can be early, by a clock that is ahead
	leave, err := l.enter(ctx, &e, task.Headers()[headerLost] != "")
	if err != nil {
		return &outcome{groups.Verdict{End: groups.Limited, At: time.Now().Add(time.Second), Err: err}}
	}
	over := fieldWaits // it is not there
	defer func() { l.settle(ctx, id, over) }()
	defer leave()
	v := l.Handle(ctx, e)
	made := v.Made
	if v.End == groups.Limited && !v.At.IsZero() && l.wait(ctx, v.At) {
		v = l.Handle(ctx, e)
	}
	if made || v.Made { // this process has survived it
		over = fieldLost
	}
	if v.End == groups.Succeeded {
		return nil
	}
	return &outcome{v}
}

// settle has forget delete a field of a job until Redis accepts that, so that asynq can note the end of the job: asynq tries only once, and
// otherwise the job would run again. asynq ends ctx when the job is lost.
func (l *line) settle(ctx context.Context, id, field string) {
	for ctx.Err() == nil && l.forget(ctx, id, field) != nil {
		groups.Sleep(ctx, settleEvery, nil)
	}
}

// forget deletes a field of a job.
func (l *line) forget(ctx context.Context, id, field string) error {
	_, err := send(ctx, l.engine, func() (int64, error) { return l.engine.redis.HDel(ctx, prefix(l.queue)+"t:"+id, field).Result() })
	return err
}

// wait waits for a time that is near. It reports whether it has waited until then.
func (l *line) wait(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d > inline {
		return false
	}
	groups.Sleep(ctx, d, l.stopping.Done())
	return l.stopping.Err() == nil && ctx.Err() == nil
}

// An outcome is the error of a task that is not done. It hides the error of the handler from asynq, which treats some
// errors specially.
type outcome struct{ groups.Verdict }

func (o *outcome) Error() string {
	if o.Err == nil {
		return "runs again"
	}
	return textOf(o.Err) // asynq stores only valid UTF-8
}

// retryDelay returns the time until a task runs again. If the error is not an outcome, the lease has expired, or
// another program has canceled the task: it runs again at once.
func retryDelay(n int, err error, task *asynq.Task) time.Duration {
	if overdue(err) {
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	o, ok := errors.AsType[*outcome](err)
	switch {
	case ok && o.End == groups.Failed:
		return farOff
	case ok && o.At.After(time.Now()):
		return min(time.Until(nextSecond(o.At)), farOff/3) // it has not failed
	}
	return 0
}

// overdue reports whether err is that of another client's task whose own deadline has passed. An outcome does not
// match.
func overdue(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// isFailure reports whether an attempt counts.
func isFailure(err error) bool {
	o, ok := errors.AsType[*outcome](err)
	return ok && o.End != groups.Limited || overdue(err)
}

// A logger passes on the messages of asynq. Those at Info tell about goroutines that start and end, so they are logged
// at Debug.
type logger struct{ to *slog.Logger }

func (l *logger) Debug(args ...any) { l.log(slog.LevelDebug, args) }
func (l *logger) Info(args ...any)  { l.log(slog.LevelDebug, args) }
func (l *logger) Warn(args ...any)  { l.log(slog.LevelWarn, args) }
func (l *logger) Error(args ...any) { l.log(slog.LevelError, args) }
func (l *logger) Fatal(args ...any) { l.log(slog.LevelError, args) }

func (l *logger) log(level slog.Level, args []any) {
	l.to.LogAttrs(context.Background(), level, "asynq", slog.String("text", fmt.Sprint(args...)))
}
