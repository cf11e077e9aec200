package bulkhead

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
)

var (
	// ErrFull is matched by a [*FullError].
	ErrFull = errors.New("bulkhead: full")
	// ErrStore is matched by the error of a call that was not made because the Store could
	// not decide. The error wraps that of the Store, and matches [core.ErrRejected].
	ErrStore = errors.New("bulkhead: store failed")
	// ErrLost is matched by the cause of the end of [Permit.Context] if the permits were
	// lost: the lease was not renewed in time, so other calls can have them.
	ErrLost = errors.New("bulkhead: permits lost")

	errClosed = fmt.Errorf("bulkhead: %w", core.ErrClosed)
)

// A FullError is the error of a call that got no permits. It matches [ErrFull] and
// [core.ErrRejected]. Calls that do not wait get the same value, so it must not be
// changed.
type FullError struct {
	Name string // of the bulkhead
	Key  string // not in the text, as it may be a secret

	weight, limit int  // of a call that is heavier than the limit of the Config; otherwise 0
	noKey         bool // MaxKeys was reached
	after         time.Duration
}

// Error has the name and the reason.
func (e *FullError) Error() string {
	switch {
	case e.weight > 0:
		return fmt.Sprintf("bulkhead: %s: a weight of %d is above the limit of %d", e.Name, e.weight, e.limit)
	case e.noKey:
		return fmt.Sprintf("bulkhead: %s: full: every key is in use", e.Name)
	}
	return fmt.Sprintf("bulkhead: %s: full", e.Name)
}

// Is matches [ErrFull] and [core.ErrRejected].
func (e *FullError) Is(target error) bool { return target == ErrFull || target == core.ErrRejected }

// RetryAfter returns an estimate of the time until the calls that waited at that moment
// are admitted, by the pace of the last ones. It is negative if no call had waited for the
// key before, and if waiting does not help.
func (e *FullError) RetryAfter() time.Duration { return e.after }

// A storeError is the error of a call that was not made because the Store could not decide.
type storeError struct {
	name string
	err  error
}

func (e *storeError) Error() string {
	return fmt.Sprintf("bulkhead: %s: store failed: %v", e.name, e.err)
}
func (e *storeError) Unwrap() []error { return []error{ErrStore, core.ErrRejected, e.err} }
