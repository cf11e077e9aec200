package retry

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Reasons of an [Error].
const (
	exhausted  = "exhausted"
	deadline   = "deadline"
	tooLong    = "retry_after"
	overBudget = "budget"
	rejected   = "rejected"
	permanent  = "permanent"
	canceled   = "canceled"
)

// ErrExhausted is matched by an [*Error], unless the caller's context has ended.
var ErrExhausted = errors.New("retry: gave up")

// An Error is the error of a call that failed after more than one attempt, or whose context ended during the wait for the second. It
// matches [core.ErrRejected] only if every attempt was rejected, so that no call was made.
type Error struct {
	Name     string // of the policy
	Attempts int    // how many were begun, including those that were rejected, such as by an open breaker
	// Reason is why there was no further attempt: "exhausted" (MaxAttempts), "deadline" (MaxElapsed, or that of the context), "retry_after"
	// (longer than MaxRetryAfter), "budget", "rejected", "not_repeatable", "permanent" (core.Permanent, or RetryIf returned false) or
	// "canceled".
	Reason string
	// Err is the error of the last attempt, joined with the cause of the context if it ended during a wait. It is nil if the last attempt had
	// a result that RetryResult wanted to retry.
	Err error
}

// Error has the name, the number of attempts, the reason and Err.
func (e *Error) Error() string {
	text := fmt.Sprintf("retry: %s: gave up after attempt %d (%s)", e.Name, e.Attempts, e.Reason)
	if e.Err == nil {
		return text + ": the last result asks for another"
	}
	return text + ": " + e.Err.Error()
}

// Is matches [ErrExhausted].
func (e *Error) Is(target error) bool { return target == ErrExhausted && e.Reason != canceled }

// Timeout reports whether Err is a timeout.
func (e *Error) Timeout() bool { return blame.Timeout(e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ended joins the cause of a context and the error of the last attempt, if there is one.
func ended(cause, last error) error {
	if last == nil {
		return cause
	}
	return fmt.Errorf("%w (last error: %w)", cause, last)
}

// A lateError is a rejection after an attempt that was made. It matches what it wraps except core.ErrRejected, so it has no Unwrap.
type lateError struct{ error }

func (e lateError) Is(target error) bool {
	return target != core.ErrRejected && errors.Is(e.error, target)
}

func (e lateError) As(target any) bool { return errors.As(e.error, target) }

// A lateWaitError is a lateError of a rejection that has a RetryAfter.
type lateWaitError struct{ lateError }

// RetryAfter returns that of the rejection.
func (e lateWaitError) RetryAfter() time.Duration {
	if d, ok := core.RetryAfter(e.error); ok {
		return d
	}
	return -1
}
