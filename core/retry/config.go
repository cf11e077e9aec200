package retry

import (
	"cmp"
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/validate"
)

const defaultMaxAttempts = 3

// Config configures a [Policy]. The zero value is ready to use: three attempts
// in all, half a second and more between them, any error is retried and no result is.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the policy. If empty, it is "default".
	Name string
	// Registry registers the policy under the kind "retry" and its name. If nil, it is
	// not registered.
	Registry *core.Registry

	// MaxAttempts is the total number of attempts, the first one included.
	// If zero, it is 3. One means never retry. It must not be
	// negative.
	MaxAttempts int
	// Backoff computes the wait before each retry. If nil, it is 500ms, doubled
	// each time, at most 1min, with jitter; the zero [backoff.Constant] does not wait. A longer wait
	// that was told ([Attempt.Floor]) replaces it, and the random part of it comes on top of that, so
	// that callers who were told one time do not return together; the jitter alone never reaches
	// MaxElapsed or the deadline.
	Backoff backoff.Strategy
	// Delay, if not nil, replaces Backoff. It is called right after a failed attempt,
	// which is described by info.Err and info.Result; info.Retry is the number of the
	// next retry. It may hold state, and it may wait itself and return 0, in which case
	// it must end with ctx. A negative result counts as 0. On top of a longer wait that was told
	// comes a random part of it, since its own jitter is not known.
	Delay func(ctx context.Context, info Info) time.Duration
	// MaxElapsed limits the time from the start to the last attempt's start, waits
	// included: a wait that would reach it is not begun. It does not end an
	// attempt. If zero, there is no limit. It must not be negative.
	//
	// A wait that would reach the deadline of the caller's context is never begun.
	MaxElapsed time.Duration
	// Budget limits the retries of all the policies that share it. If nil, there is no
	// such limit.
	Budget *Budget

	// RetryIf reports whether an error is retried. If nil, every error is. It is not called, and nothing is retried, once the
	// caller's context is done, or for an error that matches [core.ErrRejected] while
	// RetryRejected is false. If it returns false, the error is returned unchanged, also
	// after retries.
	RetryIf func(error) bool
	// RetryRejected lets errors that match [core.ErrRejected] be retried. The call
	// was not made, but an open breaker or an exhausted limit will probably reject it
	// again. An error with a negative RetryAfter is not retried even so, since waiting
	// does not help.
	//
	// Whether or not it is set, an attempt whose error has a wait ([core.RetryAfter]) is
	// not repeated before its end.
	RetryRejected bool
	// RetryResult reports whether a result without an error is retried. If nil, none
	// is.
	RetryResult func(result any) bool
	// Map, if not nil, is called exactly once, after the last attempt, with the result
	// and error for the caller, and replaces them. Its result must have the operation's
	// type, or be nil for the zero value; otherwise the caller gets an
	// error that names both types. [MapError] returns a Map that changes only errors.
	Map func(result any, err error) (any, error)

	// OnRetry is called before each wait for a retry, by the goroutine of the call. It can be nil.
	OnRetry func(ctx context.Context, r Retry)
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("retry.Config")
	check.That(c.MaxAttempts >= 0, "MaxAttempts", c.MaxAttempts, "must be >= 0 (0 means 3)")
	check.That(c.MaxElapsed >= 0, "MaxElapsed", c.MaxElapsed, "must be >= 0 (0 means no limit)")
	check.Part(validate.Own(c.Backoff))
	return check.Err()
}

func (c Config) maxAttempts() int {
	return cmp.Or(c.MaxAttempts, defaultMaxAttempts)
}

func (c Config) backoff() backoff.Strategy {
	if c.Backoff == nil {
		return backoff.Exponential{}
	}
	return c.Backoff
}
