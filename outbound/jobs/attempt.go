package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/jitter"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

const (
	forever   = 10 * 365 * 24 * time.Hour // the Timeout of a queue without one
	patience  = 2 * time.Second           // the longest wait of a job at its gate
	lead      = time.Second               // how long before the vendor permits a call its queue resumes
	leastWait = 100 * time.Millisecond    // of a limited job if the error gives no time
)

// An attempt is one delivery of a job.
type attempt struct {
	groups.Attempt
	Queue

	r    *Runner
	job  Job
	call gate.Call
}

// handle makes one attempt of a job, and decides what happens to the job. No attempt begins after ctx or stopping has ended. The contexts
// of handlers end with working.
func (r *Runner) handle(ctx, stopping, working context.Context, e groups.Entry) (v groups.Verdict) {
	a := attempt{Queue: r.life.Load().Settings[e.Queue], r: r, job: Job(e.Job)}
	switch {
	case stopping.Err() != nil, ctx.Err() != nil:
		return groups.Verdict{End: groups.Limited}
	case e.Losses >= a.MaxDeliveries:
		v.End, v.Err = groups.Failed, fmt.Errorf("jobs: %d processes ended, or lost the engine, during the attempt", e.Losses)
	default:
		a.Attempt = groups.Attempt{Name: e.Queue, Panic: "jobs: the handler panicked", Timeout: a.Queue.Timeout, Patience: patience}
		if a.Gate != nil {
			a.Pass = func(ctx context.Context, f func(context.Context) error) error {
				a.call = a.GateCall(a.job)
				return a.Gate.Do(ctx, a.call, f)
			}
		}
		err := a.Make(gate.Background(ctx), stopping, working, func(ctx context.Context) error {
			r.active.Add(1)
			defer r.active.Add(-1)
			return a.Handler(ctx, a.job)
		})
		v = a.judge(ctx, err, stopping.Err() != nil || ctx.Err() != nil)
		v.Made = a.Called
	}
	a.report(ctx, v)
	return v
}

// judge decides about a job whose attempt ended with err, which is the error of the handler or of the gate. stopped means that the process
// stops, or has lost the job. It holds the queue if the gate says that all of its jobs have to wait.
func (a *attempt) judge(ctx context.Context, err error, stopped bool) groups.Verdict {
	if a.Called && a.Err == nil {
		return groups.Verdict{}
	}
	now := time.Now()
	wait, _ := core.RetryAfter(err)
	again, runsAgain := errors.AsType[*runAtError](err)
	held, limitedByGate := errors.AsType[*gate.LimitedError](err)
	switch refusal := gate.Classify(nil, err); {
	case a.Called && blame.Permanent(a.Err):
		return groups.Verdict{End: groups.Failed, Err: a.Err}
	case runsAgain: // at exactly that time
		return groups.Verdict{End: groups.Limited, At: now.Add(max(0, again.at.Sub(now))), Err: err}
	case blame.Has[*blame.FinalError](err):
		return groups.Verdict{End: groups.Failed, Err: a.Err}
	case limitedByGate && !a.Called && a.hold(ctx, held): // the job keeps its place
		return groups.Verdict{End: groups.Limited, Err: err}
	case limitedByGate && a.Gate != nil && (!a.Called || held.Gate == a.Gate.Name()):
		wait = a.r.spacing.Wait(cmp.Or(wait, lead)) // if no time is given, it waits for another call to end
		return groups.Verdict{End: groups.Limited, At: now.Add(wait), Err: err}
	case errors.Is(err, core.ErrRejected), errors.Is(err, gate.ErrLimited):
	case refusal.Limited && a.Gate == nil:
		wait = refusal.Pause
	case stopped:
		return groups.Verdict{End: groups.Limited, Err: err}
	case a.job.MaxAttempts >= 0 && a.job.Attempt >= a.job.MaxAttempts:
		return groups.Verdict{End: groups.Failed, Err: err}
	default:
		return groups.Verdict{End: groups.Retried, At: now.Add(max(0, a.Backoff.Next(a.job.Attempt, 0))), Err: err}
	}
	if wait > 0 {
		wait = jitter.Told(wait)
	} else { // no time is given
		wait = max(leastWait, a.Backoff.Next(1, 0))
	}
	return groups.Verdict{End: groups.Limited, At: now.Add(wait), Err: err}
}

// hold holds the queue of a job that its gate refused, if all jobs of the queue would have to wait as long. It reports whether it did.
func (a *attempt) hold(ctx context.Context, refusal *gate.LimitedError) bool {
	wait := min(refusal.RetryAfter(), groups.LongestHold)
	if _, keyed := a.call.Keys[refusal.Limit]; keyed || wait <= lead {
		return false
	}
	err := a.r.queue.Hold(ctx, a.job.Queue, time.Now().Add(wait-lead))
	a.r.up.EngineIs(ctx, err, slog.String("queue", a.job.Queue))
	return err == nil
}

// report counts the end of an attempt, and emits an event.
func (a *attempt) report(ctx context.Context, v groups.Verdict) {
	a.r.ends[v.End].Add(1)
	e := registry.Event{Call: v.End != groups.Failed, Warn: v.End == groups.Failed, Key: a.job.ID}
	if life := &a.r.life; !life.Listening() || e.Call && !life.Calls() {
		return
	}
	e.Text = [...]string{"job succeeded", "job runs again later", "attempt failed", "job failed"}[v.End]
	e.Attrs = append(e.Attrs, slog.String("queue", a.job.Queue))
	if v.End == groups.Succeeded {
		e.Attrs = append(e.Attrs, slog.Duration("took", a.Took))
	} else {
		e.Attrs = append(e.Attrs, slog.Time("at", v.At), slog.Any("err", v.Err))
	}
	if p, ok := errors.AsType[*groups.PanicError](v.Err); ok {
		e.Attrs = append(e.Attrs, slog.String("stack", p.Stack))
	}
	a.r.life.Emit(context.WithoutCancel(ctx), e)
}
