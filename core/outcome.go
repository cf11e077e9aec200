package core

import "fmt"

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
	switch o {
	case Ignored:
		return "ignored"
	case Success:
		return "success"
	case Failure:
		return "failure"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// MarshalText returns the same text as String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
