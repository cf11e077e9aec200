package retry

import (
	"cmp"
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/validate"
)

const (
	defaultMaxAttempts   = 3
	defaultMaxRetryAfter = 2 * time.Minute
)

// Config configures a [Policy]. The zero value is useful: 3 attempts, after any error, with waits that begin at half a second.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the policy in errors and in the registry. If empty, it is "default".
	Name string
	// Registry registers the policy under the kind "retry" and its name. If nil, it is not registered.
	Registry *core.Registry

	// MaxAttempts is the number of attempts, the first included. If zero, it is 3. If 1, nothing is repeated. It must not
	// be negative.
	MaxAttempts int
	// Backoff computes the wait before each retry. If nil, it is 500 ms, doubled each time, at most 1 minute, with jitter.
	Backoff backoff.Strategy
	// MaxElapsed is the longest time from the start of a call to the start of its last attempt. It does not end an attempt. If
	// zero, there is no limit. It must not be negative.
	MaxElapsed time.Duration
	// MaxRetryAfter is the longest wait that an error or a response can ask for. If one asks for more, there is no retry. If
	// zero, it is 2 minutes. It must not be negative.
	MaxRetryAfter time.Duration
	// Budget limits the retries of all policies that share it. If nil, there is no such limit.
	Budget *Budget

	// RetryIf reports whether an error is retried. It is not called for core.Permanent, for rejections unless RetryRejected is set, or when
	// the caller's context is done. If nil, every error is retried.
	RetryIf func(err error) bool
	// RetryResult reports whether a result without an error is retried. If nil, no result is.
	RetryResult func(result any) bool
	// RetryRejected retries rejections too, after the wait that they ask for. It does not retry a rejection with a
	// negative RetryAfter, since waiting does not help.
	RetryRejected bool

	// OnRetry is called before each wait for a retry, by the goroutine of the call. It can be nil.
	OnRetry func(ctx context.Context, r Retry)
}

// A Retry describes a retry that is about to be made.
type Retry struct {
	Name    string        // of the policy
	Attempt int           // the number of the next attempt, from 2
	Wait    time.Duration // the wait before it
	Err     error         // of the last attempt
	Result  any           // of the last attempt, such as an *http.Response; nil if Err is set
}

// Validate reports every field that cannot be used, joined. Each is a [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("retry.Config")
	check.That(c.MaxAttempts >= 0, "MaxAttempts", c.MaxAttempts, "must be >= 0 (0 means 3)")
	check.That(c.MaxElapsed >= 0, "MaxElapsed", c.MaxElapsed, "must be >= 0 (0 means no limit)")
	check.That(c.MaxRetryAfter >= 0, "MaxRetryAfter", c.MaxRetryAfter, "must be >= 0 (0 means 2m0s)")
	check.Strategy("Backoff", c.Backoff)
	return check.Err()
}

func (c Config) maxAttempts() int { return cmp.Or(c.MaxAttempts, defaultMaxAttempts) }

func (c Config) maxRetryAfter() time.Duration { return cmp.Or(c.MaxRetryAfter, defaultMaxRetryAfter) }

func (c Config) backoff() backoff.Strategy {
	if c.Backoff == nil {
		return backoff.Exponential{}
	}
	return c.Backoff
}
