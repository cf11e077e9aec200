package retry

import "github.com/gresil/gresil/core/retry"

// These forward core/retry, so that one import is enough. Only a plugin that needs the number of its attempt also imports core/retry, for
// Attempt.
type (
	// A Budget limits the retries of all policies that share it: see core/retry.
	Budget = retry.Budget
	// Config configures a policy: see core/retry.
	Config = retry.Config
	// An Error is the error of a request that failed after more than one attempt: see core/retry.
	Error = retry.Error
	// A Policy says when and how often something is retried: see core/retry.
	Policy = retry.Policy
	// A Retry is the argument of Config.OnRetry: see core/retry.
	Retry = retry.Retry
	// Stats are the counts of a policy: see core/retry.
	Stats = retry.Stats
)

// ErrExhausted is matched by an [*Error].
var ErrExhausted = retry.ErrExhausted

// New makes a policy.
func New(cfg Config) (*Policy, error) { return retry.New(cfg) }

// NewBudget makes a budget of ratio retries for each call, plus perSecond retries a second.
func NewBudget(ratio float64, perSecond int) (*Budget, error) {
	return retry.NewBudget(ratio, perSecond)
}
