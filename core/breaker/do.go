package breaker

import (
	"context"
	"errors"
	"time"

	"github.com/gresil/gresil/core"
)

// Do runs operation if b admits it, in the caller's goroutine, and returns what it
// returns; else an [*OpenError], and operation does not run. How it ended is told
// by Config.Trip and Config.Classify. An operation that panics or ends its goroutine counts as
// [core.Ignored], and the panic goes on.
func Do[T any](ctx context.Context, b *Breaker, operation func(context.Context) (T, error)) (T, error) {
	permit, err := b.Acquire(ctx)
	if err != nil {
		var none T
		return none, err
	}
	outcome, trip := core.Ignored, time.Duration(0)
	defer func() { permit.done(outcome, 0, trip) }()
	result, err := operation(ctx)
	cfg := &b.current.Load().cfg
	if cfg.Trip != nil && !errors.Is(err, core.ErrRejected) {
		trip = cfg.Trip(ctx, result, err)
	}
	switch {
	case trip > 0:
		outcome = core.Failure
	case cfg.Classify == nil:
		outcome = DefaultClassify(ctx, nil, err)
	default:
		outcome = cfg.Classify(ctx, result, err)
	}
	return result, err
}

// Run makes a Breaker a [core.Mechanism]. It does the same as [Do].
func (b *Breaker) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, b, next.Run) }

// DefaultClassify is the Classify of a Config that has none. No error is a
// [core.Success].
//
// An error is [core.Ignored] when it is a rejection from further in
// ([core.ErrRejected]), or when ctx is done: the caller gave up, or had a deadline
// that may have been too near. It is judged by ctx and not by the error, since
// what is called may turn a cancellation into any error, and an error of somebody
// else's context is no cancellation of this call. But when ctx ended by a timeout
// with a cause of its own, set by [context.WithTimeoutCause] as core/timeout does,
// whose Timeout method returns true, it is a [core.Failure]: such a limit is there
// to tell what is slow.
//
// Any other error is a [core.Failure].
func DefaultClassify(ctx context.Context, _ any, err error) core.Outcome {
	switch {
	case err == nil:
		return core.Success
	case errors.Is(err, core.ErrRejected), ctx.Err() != nil && !limited(ctx):
		return core.Ignored
	}
	return core.Failure
}

// limited tells whether a timeout with a cause of its own ended ctx.
func limited(ctx context.Context) bool {
	cause := context.Cause(ctx)
	if ctx.Err() != context.DeadlineExceeded || cause == context.DeadlineExceeded { //nolint:errorlint // these are what package context sets
		return false
	}
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](cause)
	return ok && timeout.Timeout()
}
