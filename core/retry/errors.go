package retry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// ErrExhausted is matched by an [*Error], unless the context ended in a wait.
var ErrExhausted = errors.New("retry: gave up")

// An Error is the error of a call that was retried and whose last attempt would have been
// retried too, or was rejected, and of a call whose context ended in the wait for a retry.
// The error of any other call is that of its last attempt: if there was no retry, if
// RetryIf returns false for it, or if the context ended in that attempt.
//
// It matches [core.ErrRejected] only if every attempt was rejected, so that no call was
// made at all.
type Error struct {
	Attempts int     // that were made, the first included
	Reason   Verdict // why there is no other
	// Cause is the cause of the context's end if it ended in a wait, and otherwise nil.
	Cause error
	// Err is the error of the last attempt, or nil if RetryResult wanted to retry its
	// result. If it is a rejection after an attempt that was made, Err wraps the
	// rejection and the error of the last attempt that was made: errors.As finds
	// both, and core.RetryAfter the wait, but it does not match core.ErrRejected.
	Err    error
	Result any // of the last attempt; nil with a Cause
}

// Error contains the number of attempts, the cause of the context's end and the last
// error.
func (e *Error) Error() string {
	why := ""
	switch {
	case e.Cause != nil && e.Err == nil:
		return fmt.Sprintf("retry: ended while waiting after %d attempts: %v", e.Attempts, e.Cause)
	case e.Cause != nil:
		return fmt.Sprintf("retry: ended while waiting after %d attempts: %v (last error: %v)", e.Attempts, e.Cause, e.Err)
	case e.Reason != Exhausted:
		why = " (" + e.Reason.String() + ")"
	}
	if e.Err == nil {
		return fmt.Sprintf("retry: gave up after %d attempts%s: the last result asks for another", e.Attempts, why)
	}
	return fmt.Sprintf("retry: gave up after %d attempts%s: %v", e.Attempts, why, e.Err)
}

// Is matches [ErrExhausted] if there is no Cause.
func (e *Error) Is(target error) bool { return target == ErrExhausted && e.Cause == nil }

// Unwrap returns the Cause and the error of the last attempt.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Cause, e.Err}, func(err error) bool { return err == nil })
}

// Timeout reports whether the Cause is a timeout, or without one, the error of the last
// attempt.
func (e *Error) Timeout() bool { return blame.Timeout(cmp.Or(e.Cause, e.Err)) }

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
