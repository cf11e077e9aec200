package breaker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

// ErrOpen is matched by an [*OpenError].
var ErrOpen = errors.New("breaker: open")

// An OpenError says that a breaker did not admit a call. It matches [ErrOpen] and
// [core.ErrRejected]. All calls that are rejected in one open period get the same
// value, so it must not be changed.
type OpenError struct {
	Name  string // of the breaker, or of its Group
	Key   string // in its Group, such as a host; it is in the text
	State State  // Open, HalfOpen or ForcedOpen

	generation uint64
	over       time.Duration // Open: when the state ends, on the clock of the breaker
	until      time.Time     // Open: the same as a time; HalfOpen: when that clock began
	wait       time.Duration // HalfOpen
	slot       atomic.Int64  // HalfOpen: when the first slot comes back at the latest
}

// Error returns the name, the key, the state and the time left, as in "breaker: search:
// api.example.com:443: open for another 25s".
func (e *OpenError) Error() string {
	of := "breaker: " + e.Name
	if e.Key != "" {
		of += ": " + e.Key
	}
	switch e.State {
	case HalfOpen:
		return of + ": half-open, all trials are taken"
	case ForcedOpen:
		return of + ": forced open"
	case Closed, Open, Disabled, MetricsOnly:
	}
	return of + ": open for another " + text.About(e.RetryAfter())
}

// Is matches [ErrOpen] and [core.ErrRejected].
func (e *OpenError) Is(target error) bool { return target == ErrOpen || target == core.ErrRejected }

// RetryAfter returns the time left until the breaker admits calls again. While
// half-open the trials can decide at any moment: it is how long the breaker was open, or
// a minute if it was not, but at most until the oldest trial loses its slot. While
// forced open it is negative: waiting does not help.
func (e *OpenError) RetryAfter() time.Duration {
	switch e.State {
	case HalfOpen:
		return min(e.wait, max(0, time.Until(e.until.Add(time.Duration(e.slot.Load())))))
	case ForcedOpen:
		return -1
	case Closed, Open, Disabled, MetricsOnly:
	}
	return max(0, time.Until(e.until))
}
