package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTimeout is matched by the error of an operation that took longer than its
// limit.
var ErrTimeout = errors.New("timeout: limit exceeded")

// An Error is the error of an operation that took longer than its limit, and the
// cause with which the operation's context ends. It is a net.Error.
type Error struct {
	Name  string        // of the timeout
	Limit time.Duration // that was exceeded
	Err   error         // of the operation; nil if it adds nothing
}

// Error contains the name, the limit and Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("timeout: %q took longer than %v", e.Name, e.Limit)
	}
	return fmt.Sprintf("timeout: %q took longer than %v: %v", e.Name, e.Limit, e.Err)
}

// Is matches [ErrTimeout] and [context.DeadlineExceeded].
func (e *Error) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Timeout returns true.
func (e *Error) Timeout() bool { return true }

// Temporary returns true.
func (e *Error) Temporary() bool { return true }

// TimeLimit returns Limit.
func (e *Error) TimeLimit() time.Duration { return e.Limit }
