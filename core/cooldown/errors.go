package cooldown

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/closed"
	"github.com/gresil/gresil/internal/text"
)

var (
	// ErrHeld is matched by a [*HeldError].
	ErrHeld = errors.New("cooldown: held")
	// ErrClosed is the error of a closed [Cooldown]. It matches [core.ErrRejected], and
	// waiting does not help.
	ErrClosed error = &closed.Error{Text: "cooldown: closed"}
)

// A HeldError is the error of a call that was held for longer than it could wait. It
// matches [ErrHeld] and [core.ErrRejected]. All calls that are rejected in one hold get
// the same value, so it must not be changed.
type HeldError struct {
	Name string // of the cooldown
	Key  string // not in the text, as it may be a secret

	until time.Time
}

// Error has the name and the time that is left.
func (e *HeldError) Error() string {
	if left := e.RetryAfter(); left > 0 {
		return fmt.Sprintf("cooldown: %s: held for another %s", e.Name, text.About(left))
	}
	return fmt.Sprintf("cooldown: %s: no call admitted in time", e.Name)
}

// Is matches [ErrHeld] and [core.ErrRejected].
func (e *HeldError) Is(target error) bool { return target == ErrHeld || target == core.ErrRejected }

// RetryAfter returns the time until the end of the hold, or 0 if the hold has ended and
// other calls were admitted first.
func (e *HeldError) RetryAfter() time.Duration { return max(0, time.Until(e.until)) }
