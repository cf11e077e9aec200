package retry

import (
	"errors"
	"fmt"
)

// ErrExhausted is matched by the error of a call that was retried and failed all
// the same.
var ErrExhausted = errors.New("retry: gave up")

// An ExhaustedError is the error of a call that was retried and failed all the
// same. A call that ended with its first attempt has that attempt's own error.
//
// It unwraps to the error of the last attempt alone: where it matches
// core.ErrRejected, attempts before that one may have been made.
type ExhaustedError struct {
	Attempts int     // that were made, the first included
	Reason   Verdict // why there is no other: Exhausted, Deadline or RetryAfterTooLong
	Err      error   // of the last attempt; nil when its result was to be retried
	Result   any     // of the last attempt
}

// Error tells how many attempts were made, and the last error.
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
	Err      error // of the last attempt; nil when its result was to be retried
}

// Error tells why the context ended, and the last error.
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

// Timeout tells whether a timeout is what ended the context.
func (e *CanceledError) Timeout() bool {
	t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](e.Cause)
	return ok && t.Timeout()
}
