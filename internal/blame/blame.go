// Package blame carries the verdict of a layer about an error to the layers that judge
// the call: the error alone does not say whose fault it is.
package blame

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
)

// An Error is Err with the outcome of the call that it ended.
type Error struct {
	Err     error
	Outcome core.Outcome
	Final   bool // another attempt would end in the same way
	NotSent bool // nothing of the request was
	Sent    bool // an attempt before may have been, whatever Err says
}

// Error is that of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether Err is a timeout.
func (e *Error) Timeout() bool { return Timeout(e.Err) }

// Temporary reports whether Err is a timeout, as net.Error has it.
func (e *Error) Temporary() bool { return e.Timeout() }

// Of returns the outermost Error in the tree of err, or nil.
func Of(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// Has reports whether there is an E in the tree of err.
func Has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// Any reports whether f is true of an error in the tree of err.
func Any(err error, f func(error) bool) bool {
	for err != nil {
		if f(err) {
			return true
		}
		switch tree := err.(type) { //nolint:errorlint // this is the walk of the tree itself
		case interface{ Unwrap() error }:
			err = tree.Unwrap()
		case interface{ Unwrap() []error }:
			return slices.ContainsFunc(tree.Unwrap(), func(e error) bool { return Any(e, f) })
		default:
			return false
		}
	}
	return false
}

// Strip returns err without an Error around it.
func Strip(err error) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // only the outermost
		return e.Err
	}
	return err
}

// Timeout reports whether err is a timeout.
func Timeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// Permanent reports whether there is a core.Permanent in the tree of err.
func Permanent(err error) bool {
	return Has[interface {
		error
		Permanent() bool
	}](err)
}

// Hopeless reports whether err has a negative RetryAfter: waiting does not help.
func Hopeless(err error) bool {
	if _, ok := core.RetryAfter(err); ok {
		return false
	}
	_, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err)
	return ok // it is negative
}

// Struck reports whether a timeout with a cause of its own ended ctx: one that was set
// to detect slow calls, while a plain deadline may have been too near. One that was
// canceled is not such, whatever its cause. limit is that of the timeout, or 0 if it is
// not known.
func Struck(ctx context.Context) (limit time.Duration, ok bool) {
	if ctx.Err() != context.DeadlineExceeded {
		return 0, false
	}
	cause := context.Cause(ctx)
	if cause == context.DeadlineExceeded || !Timeout(cause) { //nolint:errorlint // a deadline without a cause of its own
		return 0, false
	}
	if limited, ok := errors.AsType[interface {
		error
		TimeLimit() time.Duration
	}](cause); ok {
		limit = limited.TimeLimit()
	}
	return limit, true
}

// Outer returns err, the error of an attempt that started at a time, with an outcome if
// an outer limit ended it: a Failure if at least half of the attempt's own limit was
// left when it started, or if own is 0, half of the outer limit; otherwise Ignored. A
// zero started is not known, and decides nothing; nor does an outer limit that is not
// known.
func Outer(ctx context.Context, started time.Time, own time.Duration, err error) error {
	if err == nil || started.IsZero() || Of(err) != nil {
		return err
	}
	limit, ok := Struck(ctx)
	if own > 0 {
		limit = own
	}
	deadline, bounded := ctx.Deadline()
	if !ok || !bounded || limit <= 0 {
		return err
	}
	outcome := core.Failure
	if left := deadline.Sub(started); left < limit-left {
		outcome = core.Ignored
	}
	return &Error{Err: err, Outcome: outcome}
}

// Judge returns the outcome of a call under ctx that ended with err: see DefaultClassify of
// core/breaker.
func Judge(ctx context.Context, err error) core.Outcome {
	if err == nil {
		return core.Success
	}
	if known := Of(err); known != nil && known.Outcome == core.Ignored || errors.Is(err, core.ErrRejected) {
		return core.Ignored
	}
	if ctx.Err() != nil {
		if _, limited := Struck(ctx); !limited {
			return core.Ignored
		}
	}
	return core.Failure
}

// EndedBy reports whether ctx ended a call with err: it is done, or err is a timeout and its deadline
// is reached. The timer of a connection that has the same deadline can be earlier than that of ctx;
// EndedBy then waits for that, so ctx has its error and cause.
func EndedBy(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	if !ok || ctx.Done() == nil || !Timeout(err) || time.Now().Before(deadline) {
		return false
	}
	<-ctx.Done()
	return true
}
