package retry

import (
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// The types of core/retry and core/backoff that this package uses, so that one import is
// enough.
type (
	// Strategy computes the wait before each retry; core/backoff has several.
	Strategy = backoff.Strategy
	// A Retry describes a retry that is about to be made.
	Retry = retry.Retry
	// Info describes an attempt or a retry.
	Info = retry.Info
	// Stats are counts since the plugin was made.
	Stats = retry.Stats
	// Error is the error of a request whose context ended in the wait for a retry, which
	// is then its Cause, and of a request that was rejected after an attempt was made. It
	// unwraps to the Cause and to the failure of the last attempt, which is a
	// [*StatusError] if there was a response.
	Error = retry.Error
	// Budget limits the retries of all plugins and policies that share it.
	Budget = retry.Budget
)

// NewBudget makes a budget that allows ratio retries per request, and minPerSecond
// retries each second in addition: see [retry.NewBudget].
func NewBudget(ratio float64, minPerSecond int) (*Budget, error) {
	return retry.NewBudget(ratio, minPerSecond)
}
