package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

var (
	// ErrLimited is matched by every [*LimitedError].
	ErrLimited = errors.New("gate: limited")
	// ErrFull is the error of a call beyond MaxQueue. It matches core.ErrRejected.
	ErrFull = fmt.Errorf("gate: too many calls are waiting: %w", core.ErrRejected)
	// ErrClosed is the error of a call after Close. It matches core.ErrRejected if the call was not sent.
	ErrClosed = fmt.Errorf("gate: %w", core.ErrClosed)

	// ErrStore is the error of a call whose wait ended while the Store was unavailable. It wraps the error of the Store, and
	// matches core.ErrRejected.
	ErrStore = fmt.Errorf("gate: store unavailable: %w", core.ErrRejected)

	errReentrant = core.Permanent(fmt.Errorf("gate: the pool is used by one of its own calls: %w", core.ErrRejected))
	errCut       = &cutError{}
)

// A LimitedError is the error of a call that would have had to wait too long, or that the vendor has refused
// Config.MaxAttempts times.
type LimitedError struct {
	Gate  string
	Limit string    // the limit that the call has to wait for longest; "" if it has no name
	Until time.Time // the earliest time at which the call can succeed; zero if it is not known
	Err   error     // the error of the last attempt; nil if none was made
}

// Error names the gate, the limit and the time until Until, as in "gate: ads: limited by account for another 25s".
func (e *LimitedError) Error() string {
	s := "gate: " + e.Gate + ": limited"
	if e.Limit != "" {
		s += " by " + e.Limit
	}
	if !e.Until.IsZero() {
		s += " for another " + text.About(e.RetryAfter())
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is matches [ErrLimited], and core.ErrRejected if no attempt was made.
func (e *LimitedError) Is(target error) bool {
	return target == ErrLimited || target == core.ErrRejected && e.Err == nil
}

// Unwrap returns Err.
func (e *LimitedError) Unwrap() error { return e.Err }

// RetryAfter returns the time until Until, or 0 if that is not known.
func (e *LimitedError) RetryAfter() time.Duration {
	return max(0, time.Until(e.Until))
}

// A cutError is the cause of a context that Close has canceled: the call may have been sent.
type cutError struct{}

func (*cutError) Error() string { return "gate: closed while the call was made" }

func (*cutError) Is(target error) bool { return target == ErrClosed || target == context.Canceled }
