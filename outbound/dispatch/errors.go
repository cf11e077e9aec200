package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
)

var (
	// ErrRateLimited is matched by a [*GaveUpError].
	ErrRateLimited = errors.New("dispatch: rate limited")
	// ErrClosed is the error of a call that a closed [Dispatcher] does not make. It
	// matches [core.ErrRejected], and waiting does not help. The error of a call that
	// Close has canceled while it ran matches ErrClosed too, but not core.ErrRejected.
	ErrClosed = fmt.Errorf("dispatch: %w", core.ErrClosed)
	// ErrFull is the error of a call beyond Capacity and MaxQueue. It matches
	// [core.ErrRejected].
	ErrFull = fmt.Errorf("dispatch: too many calls are waiting: %w", core.ErrRejected)
	// ErrReentrant is the error of a call that is made while a call with the same
	// dispatcher runs or dials: it would wait for a connection that its own caller holds.
	// It matches [core.ErrRejected].
	ErrReentrant = fmt.Errorf("dispatch: called by one of its own calls: %w", core.ErrRejected)
)

// A GaveUpError is the error of a call that the vendor refused Attempts times. It matches
// [ErrRateLimited].
type GaveUpError struct {
	Name     string // of the dispatcher
	Attempts int
	Err      error // of the last attempt, as the vendor's client returned it

	until time.Time
}

// Error contains the number of attempts and the vendor's error.
func (e *GaveUpError) Error() string {
	return fmt.Sprintf("dispatch: %s: gave up after %d rate limited attempts: %v", e.Name, e.Attempts, e.Err)
}

// Is matches [ErrRateLimited].
func (e *GaveUpError) Is(target error) bool { return target == ErrRateLimited }

// Unwrap returns Err.
func (e *GaveUpError) Unwrap() error { return e.Err }

// RetryAfter returns the time that is left of the cooldown.
func (e *GaveUpError) RetryAfter() time.Duration { return max(0, time.Until(e.until)) }

// A cutError is the error of a call that Close has canceled while it ran. It matches
// [ErrClosed] and what err matches, except core.ErrRejected, since a call was made. So it
// has no Unwrap.
type cutError struct{ err error }

// errCut is the cause of a context that Close ends: a transport returns it as the error of
// a request that it has sent.
var errCut error = &cutError{context.Canceled}

func (e *cutError) Error() string { return "dispatch: closed: " + e.err.Error() }

func (e *cutError) Is(target error) bool {
	return target == ErrClosed || target != core.ErrRejected && errors.Is(e.err, target)
}

func (e *cutError) As(target any) bool { return errors.As(e.err, target) }
