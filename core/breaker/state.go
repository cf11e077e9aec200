package breaker

import (
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// State decides whether a breaker admits and counts calls.
type State uint8

const (
	// Closed admits and counts calls.
	Closed State = iota
	// Open rejects calls until its time is over.
	Open
	// HalfOpen admits a few calls as trials, and rejects the others.
	HalfOpen
	// ForcedOpen rejects calls until the state is set again.
	ForcedOpen
	// Disabled admits calls and does not count them.
	Disabled
	// MetricsOnly admits and counts calls as Closed does, but never opens.
	MetricsOnly
)

// String returns "closed", "open", "half_open", "forced_open", "disabled" or
// "metrics_only".
func (s State) String() string {
	return text.Name(s, "closed", "open", "half_open", "forced_open", "disabled", "metrics_only")
}

// MarshalText returns the text of String. A value without a name is an error.
func (s State) MarshalText() ([]byte, error) { return validate.MarshalText(s, MetricsOnly) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (s *State) UnmarshalText(b []byte) error { return validate.UnmarshalText(s, MetricsOnly, b) }

// TrialRule decides from the trials of a half-open breaker whether it closes.
type TrialRule uint8

const (
	// ByRate opens the breaker if the share of failed trials reaches FailureRate
	// (0.5 with Failures) or the share of slow ones SlowRate, and closes
	// it otherwise, as soon as the outstanding trials cannot change that.
	ByRate TrialRule = iota
	// AllMustSucceed closes the breaker after Trials successes. The first trial that
	// fails, or is slow, opens it.
	AllMustSucceed
)

// String returns "by_rate" or "all_must_succeed".
func (r TrialRule) String() string {
	return text.Name(r, "by_rate", "all_must_succeed")
}

// MarshalText returns the text of String. A value without a name is an error.
func (r TrialRule) MarshalText() ([]byte, error) { return validate.MarshalText(r, AllMustSucceed) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (r *TrialRule) UnmarshalText(s []byte) error {
	return validate.UnmarshalText(r, AllMustSucceed, s)
}
