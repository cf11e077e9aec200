package retry

import (
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// A Verdict is the decision after an attempt.
type Verdict uint8

const (
	// Done means that the attempt succeeded.
	Done Verdict = iota
	// Again means that another attempt follows, after a wait.
	Again
	// Ignored means that the attempt failed in a way that is not retried.
	Ignored
	// Exhausted means that a retry is wanted, but all attempts are used up.
	Exhausted

	// Deadline means that a retry is wanted, but the wait for it would reach
	// MaxElapsed or the deadline of the caller's context.
	Deadline
	// RetryAfterTooLong means the same for a wait of the failed attempt's error, and also
	// that such a wait is longer than an adapter allows.
	RetryAfterTooLong
	// NotReplayable means that a retry is wanted, but the request cannot be sent again.
	NotReplayable
	// Canceled means that the caller's context is done.
	Canceled
	// Rejected means that the attempt was not made (core.ErrRejected), and
	// RetryRejected is not set or the rejection has a negative RetryAfter. On the
	// last attempt nothing is counted as suppressed, while the
	// Reason of an [Error] stays Rejected.
	Rejected
	// OverBudget means that a retry is wanted, but Config.Budget has none left.
	OverBudget
)

// String returns "done", "again", "ignored", "exhausted", "deadline",
// "retry_after_too_long", "not_replayable", "canceled", "rejected" or
// "budget".
func (v Verdict) String() string {
	return text.Name(v, "done", "again", "ignored", "exhausted", "deadline", "retry_after_too_long", "not_replayable", "canceled", "rejected", "budget")
}

// MarshalText returns the text of String. A value without a name is an error.
func (v Verdict) MarshalText() ([]byte, error) { return validate.MarshalText(v, OverBudget) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (v *Verdict) UnmarshalText(s []byte) error {
	return validate.UnmarshalText(v, OverBudget, s)
}
