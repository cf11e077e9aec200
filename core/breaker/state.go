package breaker

import (
	"errors"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// A State says whether a breaker admits and counts calls.
type State uint8

// The states.
const (
	Closed      State = iota // admits and counts calls
	Open                     // rejects calls for a time
	HalfOpen                 // admits a few calls as trials, and rejects the others
	ForcedOpen               // rejects calls until the state is set again
	Disabled                 // admits calls and does not count them
	MetricsOnly              // admits and counts calls, and never opens
)

// String returns "closed", "open", "half_open", "forced_open", "disabled" or "metrics_only".
func (s State) String() string {
	return text.Name(s, "closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
}

// MarshalText returns the text of String. A value that is no state is an error.
func (s State) MarshalText() ([]byte, error) {
	text := []byte(s.String())
	return text, new(State).UnmarshalText(text)
}

// UnmarshalText reads the text of String. Any other text is an error.
func (s *State) UnmarshalText(text []byte) error {
	for known := range MetricsOnly + 1 {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return validate.Bad("breaker.State", strconv.Quote(string(text)), "must be closed, open, half_open, forced_open, disabled or metrics_only")
}

// A StateChange is a change of the state of a breaker.
type StateChange struct {
	Name     string // of the breaker or its Group
	Key      string // in a Group, such as a host
	From, To State
	// Reason is the rule that changed the state, with its counts, as in "5 failures in a row", "52 of 100 calls failed", "20 of
	// 20 calls were slow", "asked to wait", "3 of 5 trials failed", "open for 30s", "set by hand".
	Reason string
	// OpenFor is how long the breaker will be open, if To is Open.
	OpenFor time.Duration
}

// ErrOpen is matched by an [*OpenError].
var ErrOpen = errors.New("breaker: open")

// An OpenError is the error of a call that was not admitted. It matches [ErrOpen] and core.ErrRejected. All calls that are rejected during
// one state get the same value: do not change it.
type OpenError struct {
	Name  string // of the breaker or its Group
	Key   string // in a Group, such as a host
	State State  // Open, HalfOpen or ForcedOpen

	secret bool          // Key can be a secret
	until  time.Time     // Open: when the state ends
	wait   time.Duration // HalfOpen
}

// Error has the name, the key, the state and the time left, as in "breaker: search: api.example.com: open for another 25s". The key is left
// out if a plugin with keys other than hosts uses the Group, since they can be secrets.
func (e *OpenError) Error() string {
	of := "breaker: " + e.Name
	if e.Key != "" && !e.secret {
		of += ": " + e.Key
	}
	if e.State == HalfOpen {
		return of + ": half-open, all trials are taken"
	}
	if e.State == ForcedOpen {
		return of + ": forced open"
	}
	return of + ": open for another " + text.About(e.RetryAfter())
}

// Is matches ErrOpen and core.ErrRejected.
func (e *OpenError) Is(target error) bool { return target == ErrOpen || target == core.ErrRejected }

// RetryAfter returns the time left until calls are admitted again. While half-open, when the trials can decide at any moment, it is the
// time for which the breaker was open, at most MaxHalfOpen. It is negative if the breaker is forced open.
func (e *OpenError) RetryAfter() time.Duration {
	if e.State == ForcedOpen {
		return -1
	}
	return max(0, e.wait, time.Until(e.until))
}
