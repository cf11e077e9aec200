package core

import "github.com/gresil/gresil/internal/text"

// An Outcome is what the end of a call says about the health of what was called.
type Outcome uint8

// The outcomes.
const (
	Ignored Outcome = iota // says nothing: the caller gave up, or is at fault
	Success                // it worked
	Failure                // it did not work
)

// String returns "ignored", "success" or "failure".
func (o Outcome) String() string { return text.Name(o, "ignored", "success", "failure") }
