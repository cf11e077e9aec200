package pace

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/closed"
	"github.com/gresil/gresil/internal/text"
)

var (
	// ErrLimited is matched by a [*LimitedError].
	ErrLimited = errors.New("pace: limited")
	// ErrStore is matched by the error of a call that was not made because the store could not
	// decide. The error wraps that of the store, and matches [core.ErrRejected].
	ErrStore = errors.New("pace: store failed")
	// ErrFull is the error of a call beyond MaxQueue. It matches [core.ErrRejected].
	ErrFull = fmt.Errorf("pace: too many calls are waiting: %w", core.ErrRejected)
	// ErrClosed is the error of a call after Close, and of a wait that Close ended. It matches
	// [core.ErrRejected], and waiting does not help.
	ErrClosed error = &closed.Error{Text: "pace: closed"}
)

// A LimitedError is the error of a call whose permit comes too late: after MaxWait or the deadline
// of its context, or, for Reserve, further ahead than the store can reserve, or too near the end of
// its period with FixedWindow. It matches [ErrLimited] and [core.ErrRejected].
type LimitedError struct {
	Name string    // of the pacer
	At   time.Time // the earliest time of a permit, if no other call takes it
}

// Error contains the time until At.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("pace: %s: limited, the next permit is in %s or later", e.Name, text.About(e.RetryAfter()))
}

// Is matches [ErrLimited] and [core.ErrRejected].
func (e *LimitedError) Is(target error) bool {
	return target == ErrLimited || target == core.ErrRejected
}

// RetryAfter returns the time until At, or 0.
func (e *LimitedError) RetryAfter() time.Duration { return max(0, time.Until(e.At)) }

// A storeError is the error of a call that was not made because the store could not decide.
type storeError struct{ err error } // of the limiter

func (e *storeError) Error() string {
	return "pace: " + strings.TrimPrefix(e.err.Error(), "ratelimit: ")
}
func (e *storeError) Unwrap() []error { return []error{ErrStore, core.ErrRejected, e.err} }

// slow is the error if the replies of the store take longer than Slack.
func (c *call) slow(took time.Duration) error {
	return &storeError{fmt.Errorf("%s: store failed: its replies take %v, longer than Slack, %v", c.p.Name(), took.Round(time.Millisecond), c.set.Slack)}
}
