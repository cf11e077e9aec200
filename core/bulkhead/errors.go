package bulkhead

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// ErrFull is matched by a [*FullError].
var ErrFull = errors.New("bulkhead: full")

// A FullError is the error of a call that got no permits. It matches [ErrFull] and [core.ErrRejected]. Calls that do not wait can get the
// same value: do not change it.
type FullError struct {
	Name string // of the bulkhead
	Key  string // not in the text of the error, as it may be a secret

	reason string
	after  time.Duration
	never  bool // waiting does not help
}

// Error has the name and the reason.
func (e *FullError) Error() string { return fmt.Sprintf("bulkhead: %s: %s", e.Name, e.reason) }

// Is matches ErrFull and core.ErrRejected.
func (e *FullError) Is(target error) bool {
	return target == ErrFull || target == core.ErrRejected || target == blame.ErrPassing && !e.never
}

// RetryAfter returns an estimate of the time until permits are free: how long the last admitted waiter waited. It is negative if that is
// not known, or if waiting does not help.
func (e *FullError) RetryAfter() time.Duration { return e.after }
