// Package blame carries the verdict of a layer about an error to the layers that judge
// the call: the error alone does not say whose fault it is.
package blame

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
)

// An Error is Err with the outcome of the call that it ended.
type Error struct {
	Err     error
	Outcome core.Outcome
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

// A FinalError is the error of a call that its vendor refuses for good, or has executed: nothing may send it again.
type FinalError struct{ Err error }

// Error is that of Err.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FinalError) Unwrap() error { return e.Err }

// Permanent says that it is as a core.Permanent.
func (e *FinalError) Permanent() bool { return true }

// RetryAfter says that waiting does not help.
func (e *FinalError) RetryAfter() time.Duration { return -1 }

// ErrHeld is the cause of the end of the context of a try that a gate holds back: it counts for nothing, and is made later.
var ErrHeld = fmt.Errorf("gate: held back: %w", core.ErrRejected)

// ErrPassing is matched by an error whose RetryAfter is negative because the wait is not known: waiting does help.
var ErrPassing = errors.New("passing")

// Hopeless reports whether err has a negative RetryAfter: waiting does not help.
func Hopeless(err error) bool {
	if _, ok := core.RetryAfter(err); ok || errors.Is(err, ErrPassing) {
		return false
	}
	_, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err)
	return ok // it is negative
}

// Judge returns the outcome of a call under ctx that ended with err: see Classify of core/breaker.
func Judge(ctx context.Context, err error) core.Outcome {
	if err == nil {
		return core.Success
	}
	if known := Of(err); known != nil && known.Outcome == core.Ignored || errors.Is(err, core.ErrRejected) {
		return core.Ignored
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return core.Ignored
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
