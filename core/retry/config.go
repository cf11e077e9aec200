package retry

import (
	"cmp"
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/validate"
)

// DefaultName is the name of a [Policy] whose Config has none.
const DefaultName = "default"

// DefaultMaxAttempts is the number of attempts, the first one included, of a
// Config that does not say.
const DefaultMaxAttempts = 3

// The waits of [DefaultBackoff].
const (
	DefaultInitialDelay = 500 * time.Millisecond
	DefaultMaxDelay     = time.Minute
	DefaultJitter       = 0.5
)

// DefaultBackoff returns the strategy of a Config that has none: 500ms, doubled
// each time, at most 1min, spread by half.
func DefaultBackoff() backoff.Strategy {
	return backoff.Exponential{Initial: DefaultInitialDelay, Max: DefaultMaxDelay, Jitter: DefaultJitter}
}

// Config configures a [Policy]. The zero value is ready to use: three attempts
// in all, [DefaultBackoff] between them, any error is retried and no result is.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the policy. If empty, DefaultName is used.
	Name string
	// Registry is where the policy is found under the kind "retry" and its name.
	// If nil, it is in none.
	Registry *core.Registry

	// MaxAttempts is the total number of attempts, the first one included.
	// If zero, DefaultMaxAttempts is used. One means never retry. It must not be
	// negative.
	MaxAttempts int
	// Backoff tells how long to wait before each retry. If nil, DefaultBackoff is
	// used; [backoff.None] does not wait.
	Backoff backoff.Strategy
	// Delay, if not nil, is asked in place of Backoff, right after a failed
	// attempt. It sees that attempt in info.Err and info.Result, and info.Retry is
	// the retry to come. It may hold state, and it may do the waiting itself and
	// return 0, in which case it must end with ctx. A negative result counts as 0.
	Delay func(ctx context.Context, info Info) time.Duration
	// MaxElapsed limits the time from the start to the last attempt's start, waits
	// included: a wait that would reach it is not begun. It does not cut an
	// attempt. If zero, there is no limit. It must not be negative.
	//
	// A wait that would reach the deadline of the caller's context is never begun.
	MaxElapsed time.Duration
	// Budget limits the retries of all the policies that it is given to. If nil,
	// nothing but the above does.
	Budget *Budget

	// RetryIf tells whether an error is retried. If nil, any is; [Any] and [All]
	// put several together. It is not asked,
	// and nothing is retried, once the caller's context is done, nor about an
	// error that matches [core.ErrRejected] while RetryRejected is false. An error
	// that it declines is returned as it is, also after retries.
	RetryIf func(error) bool
	// RetryRejected lets errors that match [core.ErrRejected] be retried. The call
	// they stand for was not made, but what rejected it, an open breaker or a used
	// up limit, will most likely do so again. One that says that waiting does not
	// help, by a negative RetryAfter, is not retried all the same.
	//
	// This or not, an attempt whose error asks for a wait ([core.RetryAfter]) is
	// not repeated before that.
	RetryRejected bool
	// RetryResult tells whether a result that came without an error is retried.
	// If nil, none is.
	RetryResult func(result any) bool
	// Map, if not nil, is called exactly once, after the last attempt, with what
	// the caller would get. The caller gets what it returns. That must be of the
	// operation's type, or nil for its zero value, or the caller gets a
	// [*core.ResultTypeError]. [MapError] makes one for errors alone.
	Map func(result any, err error) (any, error)

	// Hooks observe the policy. Any of them may be nil.
	Hooks Hooks
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config {
	f(&c)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("retry.Config")
	check.That(c.MaxAttempts >= 0, "MaxAttempts", c.MaxAttempts, "must be >= 0 (0 means 3)")
	check.That(c.MaxElapsed >= 0, "MaxElapsed", c.MaxElapsed, "must be >= 0 (0 means no limit)")
	check.Part(backoff.Validate(c.Backoff))
	return check.Err()
}

func (c Config) maxAttempts() int {
	return cmp.Or(c.MaxAttempts, DefaultMaxAttempts)
}

func (c Config) backoff() backoff.Strategy {
	if c.Backoff == nil {
		return DefaultBackoff()
	}
	return c.Backoff
}
