package timeout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTimeout is matched by an [*Error].
var ErrTimeout = errors.New("timeout: limit exceeded")

// An Error is the error of an operation that took longer than its limit, and the cause of the end of its context. It matches
// [ErrTimeout] and context.DeadlineExceeded, and is a net.Error.
type Error struct {
	Name  string        // of the timeout
	Limit time.Duration // the limit that was exceeded
	Err   error         // of the operation; it can be nil
}

// Error has the name, the limit and Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("timeout: %q took longer than %v", e.Name, e.Limit)
	}
	return fmt.Sprintf("timeout: %q took longer than %v: %v", e.Name, e.Limit, e.Err)
}

// Is matches ErrTimeout and context.DeadlineExceeded.
func (e *Error) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Timeout returns true.
func (e *Error) Timeout() bool { return true }

// Temporary returns true.
func (e *Error) Temporary() bool { return true }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Stats are the counts of operations that have ended.
type Stats struct {
	Succeeded uint64 // without an error, even after the limit
	Failed    uint64 // with an error within the limit, or after the end of the caller's context
	TimedOut  uint64 // with an error after the limit
}

// String returns the stats in one line, as in "succeeded=120 failed=3 timed_out=1".
func (s Stats) String() string {
	return fmt.Sprintf("succeeded=%d failed=%d timed_out=%d", s.Succeeded, s.Failed, s.TimedOut)
}
