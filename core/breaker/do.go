package breaker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Do runs operation in the caller's goroutine if b admits it, and returns its result;
// otherwise it returns an [*OpenError], and operation does not run. Config.Trip and
// Config.Classify decide how the call ended. An operation that ends its goroutine is
// [core.Ignored], and so is one that panics unless Config.PanicsFail is set. A panic goes
// on.
func Do[T any](ctx context.Context, b *Breaker, operation func(context.Context) (T, error)) (T, error) {
	permit, err := b.Acquire(ctx)
	if err != nil {
		var none T
		return none, err
	}
	outcome, trip := running, time.Duration(0)
	defer func() {
		if outcome == running && b.life.Load().Config.PanicsFail {
			if v := recover(); v != nil { // nil after a Goexit
				defer panic(v)
				outcome = core.Failure
			}
		}
		permit.done(outcome, 0, trip)
	}()
	var started time.Time
	if _, bounded := ctx.Deadline(); bounded {
		started = time.Now() // only an outer limit needs it
	}
	result, err := operation(ctx)
	cfg := &b.life.Load().Config
	if err == nil && cfg.Classify == nil && cfg.Trip == nil {
		outcome = core.Success
		return result, nil
	}
	outcome = core.Ignored
	judged := err
	if err != nil {
		judged, err = blame.Outer(ctx, started, 0, err), blame.Strip(err)
	}
	if cfg.Trip != nil && !errors.Is(err, core.ErrRejected) {
		trip = cfg.Trip(ctx, result, err)
	}
	switch {
	case trip > 0:
		outcome = core.Failure
	case cfg.Classify == nil:
		outcome = DefaultClassify(ctx, nil, judged)
	default:
		outcome = cfg.Classify(ctx, result, judged)
	}
	return result, err
}

// running is the outcome of an operation that has not returned. It counts as
// [core.Ignored].
const running = core.Outcome(math.MaxUint8)

// Run makes a Breaker a [core.Mechanism]. It does the same as [Do].
func (b *Breaker) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, b, next.Run) }

// DefaultClassify is the Classify of a Config without one. No error is a
// [core.Success].
//
// An error is [core.Ignored] if it is a rejection by an inner mechanism
// ([core.ErrRejected]), or if ctx is done: the caller gave up, or had a deadline
// that may have been too near. It is judged by ctx and not by the error, since
// an operation may turn a cancellation into any error, and an error of another
// context is no cancellation of this call.
//
// A context that ended by a timeout with a cause of its own, set by
// [context.WithTimeoutCause] as core/timeout does, whose Timeout method returns true,
// is a limit that detects slow calls. If [Do] was called under such an outer limit, and it
// ended the operation, that is a [core.Failure] if the operation had at least half of
// its own limit, which is that of core/timeout inside of the breaker; without one, at
// least half of the outer limit. Otherwise it is [core.Ignored]: other work has used up
// the time. A method TimeLimit() time.Duration of the cause returns the outer limit, as
// that of timeout.Error in core/timeout does. Without the method, and without Do, it is
// a Failure.
//
// Any other error is a [core.Failure].
func DefaultClassify(ctx context.Context, _ any, err error) core.Outcome {
	return blame.Judge(ctx, err)
}
