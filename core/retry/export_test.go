package retry

// For the tests of this package.
const (
	DefaultName        = "default"
	DefaultMaxAttempts = defaultMaxAttempts
	BudgetCalls        = budgetCalls
)

var DefaultBackoff = Config{}.backoff //nolint:gochecknoglobals // a constant
