package retry

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
)

// ErrExhausted is matched by an [*ExhaustedError].
var ErrExhausted = errors.New("retry: gave up")

// An ExhaustedError is the error of a call that was retried and whose last attempt would
// have been retried too, or was rejected. The error of a call is that of its last attempt
// if there was no retry, if RetryIf returns false for it, or if the context ended in that
// attempt.
//
// It matches [core.ErrRejected] only if every attempt was rejected, so that no call was
// made at all.
type ExhaustedError struct {
	Attempts int     // that were made, the first included
	Reason   Verdict // why there is no other
	// Err is the error of the last attempt, or nil if RetryResult wanted to retry its
	// result. If it is a rejection after an attempt that was made, Err wraps the
	// rejection and the error of the last attempt that was made: errors.As finds
	// both, and core.RetryAfter the wait, but it does not match core.ErrRejected.
	Err    error
	Result any // of the last attempt
}

// Error contains the number of attempts and the last error.
func (e *ExhaustedError) Error() string {
	why := ""
	if e.Reason != Exhausted {
		why = " (" + e.Reason.String() + ")"
	}
	if e.Err == nil {
		return fmt.Sprintf("retry: gave up after %d attempts%s: the last result asks for another", e.Attempts, why)
	}
	return fmt.Sprintf("retry: gave up after %d attempts%s: %v", e.Attempts, why, e.Err)
}

// Is matches [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// Unwrap returns the error of the last attempt.
func (e *ExhaustedError) Unwrap() error { return e.Err }

// A CanceledError is the error of a call whose context ended in the wait for a
// retry.
type CanceledError struct {
	Attempts int   // that were made
	Cause    error // the cause of the context's end
	Err      error // of the last attempt, as in ExhaustedError
}

// Error contains the cause of the context's end and the last error.
func (e *CanceledError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("retry: ended while waiting after %d attempts: %v", e.Attempts, e.Cause)
	}
	return fmt.Sprintf("retry: ended while waiting after %d attempts: %v (last error: %v)", e.Attempts, e.Cause, e.Err)
}

// Unwrap returns the cause and the error of the last attempt.
func (e *CanceledError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Err}
}

// Timeout reports whether a timeout ended the context.
func (e *CanceledError) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Cause)
	return ok && t.Timeout()
}

// A laterRejectionError is a rejection after an attempt that was made. It matches the
// errors of both, except core.ErrRejected, since a call was made. So it has no Unwrap.
type laterRejectionError struct {
	rejection error
	made      error // of the last attempt that was made; nil if its result was retried
}

func (e *laterRejectionError) Error() string {
	if e.made == nil {
		return e.rejection.Error()
	}
	return fmt.Sprintf("%v (before that: %v)", e.rejection, e.made)
}

func (e *laterRejectionError) Is(target error) bool {
	return target != core.ErrRejected && (errors.Is(e.rejection, target) || errors.Is(e.made, target))
}

func (e *laterRejectionError) As(target any) bool {
	return errors.As(e.rejection, target) || e.made != nil && errors.As(e.made, target)
}

// RetryAfter returns the wait of the rejection, negative if it has none. The wait of the
// attempt before is over.
func (e *laterRejectionError) RetryAfter() time.Duration {
	if d, ok := core.RetryAfter(e.rejection); ok {
		return d
	}
	return -1
}

// hopeless reports whether a rejection has a negative RetryAfter: waiting does not help.
func hopeless(rejection error) bool {
	if _, ok := core.RetryAfter(rejection); ok {
		return false
	}
	_, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](rejection)
	return ok // it is negative
}
