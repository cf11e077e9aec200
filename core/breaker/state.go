package breaker

import "fmt"

// State is what a breaker does with calls.
type State uint8

const (
	// Closed lets calls pass and counts how they end.
	Closed State = iota
	// Open rejects calls until its time is over.
	Open
	// HalfOpen admits a few calls as trials, and rejects the rest.
	HalfOpen
	// ForcedOpen rejects calls until the state is set again.
	ForcedOpen
	// Disabled lets calls pass and does not count them.
	Disabled
	// MetricsOnly lets calls pass and counts them as Closed does, but never opens.
	MetricsOnly
)

// String returns "closed", "open", "half_open", "forced_open", "disabled" or
// "metrics_only".
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	case ForcedOpen:
		return "forced_open"
	case Disabled:
		return "disabled"
	case MetricsOnly:
		return "metrics_only"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// MarshalText returns the same text as String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
