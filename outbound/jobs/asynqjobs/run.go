package asynqjobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/gresil/gresil/outbound/jobs"
)

const maxError = 1000 // bytes of the text of an error

// Run implements [jobs.Engine], by an asynq server for the queue alone.
func (e *Engine) Run(ctx context.Context, queue string, concurrency int, handle func(context.Context, jobs.Job) jobs.Result) error {
	base := context.WithoutCancel(ctx)
	server := asynq.NewServerFromRedisClient(e.redis, asynq.Config{
		Concurrency: concurrency, Queues: map[string]int{queue: 1}, BaseContext: func() context.Context { return base },
		TaskCheckInterval: e.config.Poll, DelayedTaskCheckInterval: e.config.PollScheduled, ShutdownTimeout: e.config.ShutdownTimeout,
		RetryDelayFunc: retryDelay, IsFailure: isFailure,
		Logger: &logger{e.config.Logger}, LogLevel: asynq.InfoLevel,
	})
	run := &run{engine: e, queue: queue, stopping: ctx.Done(), handle: handle}
	warn := func(kind string, err error) {
		if err != nil && ctx.Err() == nil {
			e.config.Logger.LogAttrs(ctx, slog.LevelWarn, "jobs could not be repaired", slog.String("jobs", kind), slog.Any("err", err))
		}
	}
	warn("lost", e.recover(ctx, queue)) // before asynq does, which does not count
	if err := server.Start(run); err != nil {
		return fmt.Errorf("asynqjobs: %w", err)
	}
	defer server.Shutdown()
	ticker := time.NewTicker(recoverEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		if e.config.Repair && n%int(repairEvery/recoverEvery) == 0 {
			_, err := e.Repair(ctx, queue)
			warn("stuck", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		warn("lost", e.recover(ctx, queue))
	}
}

// A run is the handler of one server.
type run struct {
	engine   *Engine
	queue    string
	stopping <-chan struct{}
	handle   func(context.Context, jobs.Job) jobs.Result
}

// ProcessTask implements asynq.Handler.
func (r *run) ProcessTask(ctx context.Context, task *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	retried, _ := asynq.GetRetryCount(ctx)
	maxRetry, _ := asynq.GetMaxRetry(ctx)
	job := jobOf(id, r.queue, task.Type(), task.Payload(), task.Headers(), retried, maxRetry)
	if d := time.Until(job.NotBefore); d > 0 && d <= r.engine.config.Inline && !r.wait(ctx, job.NotBefore) {
		return &outcome{jobs.Result{Verdict: jobs.Again, At: job.NotBefore}} // another clock was ahead, and this process stops
	}
	if task.Headers()[headerLost] != "" {
		return r.suspect(ctx, job)
	}
	return r.attempt(ctx, job)
}

func (r *run) attempt(ctx context.Context, job jobs.Job) error {
	result := r.handle(ctx, job)
	if result.Verdict == jobs.Again && r.wait(ctx, result.At) {
		result = r.handle(ctx, job)
	}
	if result.Verdict == jobs.Succeeded {
		return nil
	}
	return &outcome{result}
}

// wait waits in the process, if the time is near, and reports whether it is over.
func (r *run) wait(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d > r.engine.config.Inline || ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.stopping:
	case <-ctx.Done():
	}
	return false
}

// An outcome is the error of a task that is not done. It hides the error of the handler from asynq,
// which treats some errors in its own way.
type outcome struct{ result jobs.Result }

func (o *outcome) Error() string {
	if o.result.Err == nil {
		return "runs again"
	}
	text := o.result.Err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxError)], "?") // asynq cannot store another text
}

// Is matches asynq.SkipRetry, which archives the task at once.
func (o *outcome) Is(target error) bool {
	return o.result.Verdict == jobs.Fail && target == asynq.SkipRetry
}

// retryDelay returns the time until a task runs again. An error that is not an outcome is that of a
// lease that has expired, or of a task that was canceled by another program: it runs again at once.
func retryDelay(n int, err error, task *asynq.Task) time.Duration {
	if overdue(err) {
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	if o, ok := errors.AsType[*outcome](err); ok && o.result.At.After(time.Now()) {
		return time.Until(nextSecond(o.result.At))
	}
	return 0
}

// overdue reports whether err is that of a task of another client whose own deadline is over. An
// outcome does not match.
func overdue(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// isFailure reports whether an attempt counts.
func isFailure(err error) bool {
	o, ok := errors.AsType[*outcome](err)
	return ok && o.result.Verdict == jobs.Retry || overdue(err)
}

// A logger passes the messages of asynq on. Its information is about goroutines that start and end.
type logger struct{ to *slog.Logger }

func (l *logger) Debug(args ...any) { l.log(slog.LevelDebug, args) }
func (l *logger) Info(args ...any)  { l.log(slog.LevelDebug, args) }
func (l *logger) Warn(args ...any)  { l.log(slog.LevelWarn, args) }
func (l *logger) Error(args ...any) { l.log(slog.LevelError, args) }
func (l *logger) Fatal(args ...any) { l.log(slog.LevelError, args) }

func (l *logger) log(level slog.Level, args []any) {
	l.to.LogAttrs(context.Background(), level, "asynq", slog.String("text", fmt.Sprint(args...)))
}
