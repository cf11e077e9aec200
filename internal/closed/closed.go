// Package closed has the error of mechanisms that were closed.
package closed

import (
	"time"

	"github.com/gresil/gresil/core"
)

// An Error is the error of a call that was not made, since the mechanism before it is
// closed. Each mechanism has one of its own.
type Error struct{ Text string }

// Error returns the Text.
func (e *Error) Error() string { return e.Text }

// Is matches [core.ErrRejected].
func (e *Error) Is(target error) bool { return target == core.ErrRejected }

// RetryAfter is negative: waiting does not help.
func (e *Error) RetryAfter() time.Duration { return -1 }
