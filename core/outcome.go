package core

import (
	"github.com/gresil/gresil/internal/text"
)

// Outcome is the result of a call, as far as it concerns the health of the upstream.
type Outcome uint8

const (
	// Ignored says nothing about the upstream: the caller gave up, or the error is the
	// caller's own. It is the zero value, so that a forgotten outcome decides nothing.
	Ignored Outcome = iota
	// Success is a call that worked.
	Success
	// Failure is a call that did not work.
	Failure
)

// String returns "ignored", "success" or "failure".
func (o Outcome) String() string {
	return text.Name(o, "ignored", "success", "failure")
}

// MarshalText returns the text of String. A value without a name is an error.
func (o Outcome) MarshalText() ([]byte, error) { return text.Marshal(o, Failure, badText) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (o *Outcome) UnmarshalText(s []byte) error { return text.Unmarshal(o, Failure, s, badText) }

func badText(field string, value any, reason string) error {
	return &ConfigError{Field: field, Value: value, Reason: reason}
}
