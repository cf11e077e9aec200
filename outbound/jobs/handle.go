package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/jitter"
)

// holdTimeout is the longest time that an attempt waits for the engine to hold its queue.
const holdTimeout = 5 * time.Second

// leastLosses is the number of losses up to which no job fails: those of the first processes can be
// the fault of another job.
const leastLosses = 3

// forever is the Timeout of a queue without one.
const forever = 10 * 365 * 24 * time.Hour

// handle makes one attempt of a job. handlers ends when the handlers must return.
func (r *Runner) handle(ctx, handlers context.Context, queue string, job Job) Result {
	if job.MaxAttempts >= 0 && job.Losses >= max(job.MaxAttempts, leastLosses) {
		err := fmt.Errorf("jobs: %d processes ended, or lost the engine, during the attempt", job.Losses)
		r.count(ctx, Fail, Event{Queue: queue, Job: job, Err: err})
		return Result{Verdict: Fail, Err: err}
	}
	current := r.life.Load().Settings[queue]
	limit := current.Timeout
	if limit < 0 {
		limit = forever
	}
	attempt, cancel := context.WithTimeoutCause(ctx, limit, &timeout.Error{Name: queue, Limit: limit})
	defer cancel()
	defer context.AfterFunc(handlers, cancel)()
	r.counters.active.Add(1)
	began := time.Now()
	err := invoke(attempt, current.Handler, job)
	took := time.Since(began)
	r.counters.active.Add(-1)

	result, slot := current.decide(time.Now(), job, err, ctx.Err() != nil || handlers.Err() != nil)
	event := Event{Queue: queue, Job: job, At: result.At, Took: took, Err: result.Err}
	if wait := time.Until(slot); current.Hold > 0 && wait > current.Hold {
		r.hold(ctx, event, began, time.Now().Add(min(wait, maxHold)))
	}
	r.count(ctx, result.Verdict, event)
	return result
}

// invoke calls a handler in a goroutine of its own: a handler may end its goroutine.
func invoke(ctx context.Context, handler Handler, job Job) error {
	ended := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{v, debug.Stack()}
			}
			ended <- err
		}()
		err = handler(ctx, job)
	}()
	return <-ended
}

// decide is judge, but a panic of the error or of a strategy of the user is a failed attempt.
func (q *Queue) decide(now time.Time, job Job, err error, stopped bool) (result Result, slot time.Time) {
	defer func() {
		if v := recover(); v != nil {
			safe := Queue{Backoff: defaultBackoff()}
			result, slot = safe.judge(now, job, &PanicError{v, debug.Stack()}, false)
		}
	}()
	if err != nil {
		_ = err.Error() // engines keep it
	}
	return q.judge(now, job, err, stopped)
}

// judge decides about a job whose attempt ended with err. The slot is the time at which a limit
// permits the next call, or zero. stopped means that the process stops, or has lost the job.
func (q *Queue) judge(now time.Time, job Job, err error, stopped bool) (result Result, slot time.Time) {
	if err == nil {
		return Result{Verdict: Succeeded}, time.Time{}
	}
	if blame.Permanent(err) {
		return Result{Verdict: Fail, Err: err}, time.Time{}
	}
	if again, ok := errors.AsType[*runAtError](err); ok {
		return Result{Again, again.at, err}, time.Time{}
	}
	rejected := errors.Is(err, core.ErrRejected)
	wait, limited := core.RetryAfter(err)
	switch {
	case limited:
		slot = now.Add(wait)
		at := slot
		if q.Spread != nil {
			at = now.Add(jitter.Above(wait, q.Spread, 1, 0, q.Spread.Next(1, 0)))
		}
		return Result{Again, at, err}, slot
	case !rejected && permanent(err):
		return Result{Verdict: Fail, Err: err}, time.Time{}
	case stopped:
		return Result{Again, now, err}, time.Time{}
	case rejected:
		return Result{Again, now.Add(max(0, q.Backoff.Next(1, 0))), err}, time.Time{}
	case job.MaxAttempts >= 0 && job.Attempt >= job.MaxAttempts:
		return Result{Verdict: Fail, Err: err}, time.Time{}
	}
	return Result{Retry, now.Add(max(0, q.Backoff.Next(job.Attempt, 0))), err}, time.Time{}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// permanent reports whether err has a negative RetryAfter: waiting does not help.
func permanent(err error) bool {
	_, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err)
	return ok // it is negative
}

// hold holds the queue of an attempt until its slot, unless this process has done so since the
// attempt began. An attempt that began later shows that the queue was resumed, and holds it again.
func (r *Runner) hold(ctx context.Context, event Event, began, slot time.Time) {
	r.mu.Lock()
	last := r.holds[event.Queue]
	known := !began.After(last.since) && !slot.After(last.until.Add(100*time.Millisecond))
	if !known {
		r.holds[event.Queue] = hold{time.Now(), slot}
	}
	r.mu.Unlock()
	if known {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
	defer cancel()
	if err := r.engine.Hold(bounded, event.Queue, slot); err != nil {
		r.mu.Lock()
		delete(r.holds, event.Queue)
		r.mu.Unlock()
		r.engineFails(ctx, Event{Queue: event.Queue, Err: err})
		return
	}
	r.mu.Lock()
	r.holds[event.Queue] = hold{time.Now(), r.holds[event.Queue].until} // attempts could begin until now
	r.mu.Unlock()
	r.engineExecutes(ctx)
	r.counters.holds.Add(1)
	event.At = slot
	r.call(ctx, r.life.Hooks().Held, event)
}

func (r *Runner) count(ctx context.Context, verdict Verdict, event Event) {
	hooks := r.life.Hooks()
	switch verdict {
	case Succeeded:
		r.counters.succeeded.Add(1)
		r.call(ctx, hooks.Succeeded, event)
	case Again:
		r.counters.limited.Add(1)
		r.call(ctx, hooks.Limited, event)
	case Retry:
		r.counters.retried.Add(1)
		r.call(ctx, hooks.Retried, event)
	case Fail:
		r.counters.failed.Add(1)
		r.call(ctx, hooks.Failed, event)
	}
}
