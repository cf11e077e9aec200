package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

const (
	forever     = 10 * 365 * 24 * time.Hour // the Timeout of a queue without one
	patience    = 2 * time.Second           // for which a job waits at its gate
	lead        = time.Second               // before the vendor permits a call, its queue goes on
	holdTimeout = 5 * time.Second
	leastWait   = 100 * time.Millisecond // of a job that is to wait for a time that is not said
)

// handle makes one attempt of a job, and decides what becomes of it. No attempt begins after stopping has ended, and handlers return
// when the other context ends.
func (r *Runner) handle(ctx, stopping, handlers context.Context, e groups.Entry) groups.Verdict {
	q, job := r.life.Load().Settings[e.Queue], Job(e.Job)
	a := attempt{Queue: &q, job: job, active: &r.active, spacing: &r.spacing}
	var v groups.Verdict
	switch {
	case stopping.Err() != nil:
		return groups.Verdict{End: groups.Limited}
	case e.Losses >= q.MaxDeliveries:
		err := fmt.Errorf("jobs: %d processes ended, or lost the engine, during the attempt", e.Losses)
		v = groups.Verdict{End: groups.Failed, Err: err}
	default:
		live, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(handlers, cancel)()
		err := a.make(live, stopping, cancel)
		v = a.judge(time.Now(), err, stopping.Err() != nil || ctx.Err() != nil)
		if v.Made = a.called; r.hold(ctx, &a, err) {
			v.At = time.Time{}
		}
	}
	r.count(ctx, &a, v)
	return v
}

// An attempt is one delivery of a job.
type attempt struct {
	*Queue

	job     Job
	active  *atomic.Int64
	spacing *groups.Spacing
	call    gate.Call
	called  bool  // the handler was
	err     error // of the handler
	took    time.Duration
}

// make calls the handler once, when the gate permits it. If stopping ends before that, cancel ends ctx.
func (a *attempt) make(ctx, stopping context.Context, cancel func()) (err error) {
	defer caught(&err)
	if a.Gate == nil {
		return a.invoke(ctx)
	}
	a.call = a.GateCall(a.job)
	wait := &waiting{ctx, time.Now().Add(patience)}
	stop := context.AfterFunc(stopping, cancel)
	defer stop()
	return a.Gate.Do(wait, a.call, //nolint:contextcheck // it is that of ctx
		func(ctx context.Context) error {
			if !stop() { // ctx ends: the call would be cut when it is under way
				return context.Cause(stopping)
			}
			wait.until = time.Time{} // the call has its own time
			err := a.invoke(ctx)
			wait.until = time.Unix(0, 0) // a call that is refused goes back to its queue
			return err
		})
}

// waiting is the context of a call at a gate. Its deadline limits only the wait: the context does not end then.
type waiting struct {
	context.Context //nolint:containedctx // it is a context

	until time.Time
}

func (w *waiting) Deadline() (time.Time, bool) { return w.until, !w.until.IsZero() }

// invoke calls the handler.
func (a *attempt) invoke(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.Timeout, &timeout.Error{Name: a.job.Queue, Limit: a.Timeout})
	defer cancel()
	began := time.Now()
	a.called = true
	a.active.Add(1)
	defer func() {
		a.active.Add(-1)
		a.err, a.took = err, time.Since(began)
	}()
	defer caught(&err)
	return a.Handler(ctx, a.job)
}

// caught makes a panic of the handler, or of GateCall, an error.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = groups.Panicked("jobs: the handler panicked", v)
	}
}

// judge decides about a job whose attempt ended with err: that of the handler, or what the gate has made of it. stopped means that the
// process stops, or has lost the job.
func (a *attempt) judge(now time.Time, err error, stopped bool) groups.Verdict {
	limited := func(wait time.Duration) groups.Verdict {
		if wait <= 0 { // it is not said
			wait = max(leastWait, a.Backoff.Next(1, 0))
		}
		return groups.Verdict{End: groups.Limited, At: now.Add(wait), Err: err}
	}
	if a.called && a.err == nil {
		return groups.Verdict{}
	}
	if a.called && blame.Permanent(a.err) {
		return groups.Verdict{End: groups.Failed, Err: a.err}
	}
	if again, ok := errors.AsType[*runAtError](err); ok {
		return groups.Verdict{End: groups.Limited, At: now.Add(max(0, again.at.Sub(now))), Err: err}
	}
	wait, _ := core.RetryAfter(err)
	held, limitedByGate := errors.AsType[*gate.LimitedError](err)
	switch refusal := gate.Classify(nil, err); {
	case limitedByGate && a.Gate != nil && (!a.called || held.Gate == a.Gate.Name()):
		if wait == 0 { // it waits for another call
			wait = lead
		}
		return limited(a.spacing.Wait(wait))
	case errors.Is(err, core.ErrRejected), errors.Is(err, gate.ErrLimited):
		return limited(wait)
	case refusal.Limited && a.Gate == nil:
		return limited(refusal.Pause)
	case stopped:
		return groups.Verdict{End: groups.Limited, Err: err}
	case a.job.MaxAttempts >= 0 && a.job.Attempt >= a.job.MaxAttempts:
		return groups.Verdict{End: groups.Failed, Err: err}
	}
	return groups.Verdict{End: groups.Retried, At: now.Add(max(0, a.Backoff.Next(a.job.Attempt, 0))), Err: err}
}

// hold holds the queue of a job that its gate did not let pass, if all jobs would have to wait for that long. It reports whether it has.
func (r *Runner) hold(ctx context.Context, a *attempt, err error) bool {
	refusal, ok := errors.AsType[*gate.LimitedError](err)
	if !ok || a.called {
		return false
	}
	wait := min(refusal.RetryAfter(), groups.LongestHold)
	if _, keyed := a.call.Keys[refusal.Limit]; keyed || wait <= lead {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holdTimeout)
	defer cancel()
	err = r.queue.Hold(ctx, a.job.Queue, time.Now().Add(wait-lead))
	r.engineIs(ctx, a.job.Queue, err)
	return err == nil
}

// count counts the end of an attempt, and reports it.
func (r *Runner) count(ctx context.Context, a *attempt, v groups.Verdict) {
	r.ends[v.End].Add(1)
	e := registry.Event{Call: v.End != groups.Failed, Warn: v.End == groups.Failed, Key: a.job.ID}
	if !e.Warn && !r.life.Calls() || !r.life.Listening() {
		return
	}
	e.Text = [...]string{"job succeeded", "job runs again later", "attempt failed", "job failed"}[v.End]
	e.Attrs = append(e.Attrs, slog.String("queue", a.job.Queue))
	if v.End == groups.Succeeded {
		e.Attrs = append(e.Attrs, slog.Duration("took", a.took))
	} else {
		e.Attrs = append(e.Attrs, slog.Time("at", v.At), slog.Any("err", v.Err))
	}
	if p, ok := errors.AsType[*groups.PanicError](v.Err); ok {
		e.Attrs = append(e.Attrs, slog.String("stack", p.Stack))
	}
	r.life.Emit(context.WithoutCancel(ctx), e)
}
