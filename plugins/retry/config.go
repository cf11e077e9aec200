package retry

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

// Defaults of [Config].
const (
	DefaultName          = retry.DefaultName
	DefaultMaxAttempts   = retry.DefaultMaxAttempts
	DefaultMaxRetryAfter = 2 * time.Minute
)

// Config configures a [Plugin]. The zero value is ready to use: three attempts
// in all for requests that may be repeated, 500ms × 2 between them, spread by
// half, and what [DefaultCheckRetry] says is worth it.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the plugin. If empty, DefaultName is used.
	Name string
	// Registry is where the policy of the plugin, a *retry.Policy of core/retry,
	// is found under the kind "retry" and its name. If nil, it is in none. A
	// SetConfig of that policy sets what both have; its RetryResult and Map are
	// not used here.
	Registry *core.Registry

	// MaxAttempts is the total number of attempts, the first one included.
	// If zero, DefaultMaxAttempts is used. One means never retry. It must not be
	// negative.
	MaxAttempts int
	// Backoff tells how long to wait before each retry. If nil, 500ms, doubled
	// each time, at most 1min, spread by half.
	Backoff backoff.Strategy
	// Delay, if not nil, is asked in place of Backoff, right after a failed
	// attempt. info.Result is its *http.Response, if there is one, whose body
	// belongs to the plugin. A negative result counts as 0. [FromBackoff] makes
	// one of a Backoff of go-retryablehttp.
	Delay func(ctx context.Context, info Info) time.Duration
	// MaxElapsed limits the time from the start to the last attempt's start, waits
	// included. If zero, there is no limit. It must not be negative. A wait that
	// would reach it, or the deadline of the request's context, is not begun.
	MaxElapsed time.Duration
	// Budget limits the retries of all the plugins and policies that it is given
	// to. If nil, nothing but the above does. [NewBudget] makes one.
	Budget *Budget
	// MaxRetryAfter is the longest wait that a Retry-After header, or a rejection,
	// can ask for. Where it asks for more, the response is returned at once. If
	// zero, DefaultMaxRetryAfter is used. It must not be negative.
	MaxRetryAfter time.Duration

	// RetryIf tells which errors are retried. If nil, those that DefaultCheckRetry
	// names. It is not called for one that no retry can cure: a request that
	// cannot be sent, a name that does not exist, a server that does not speak TLS, a
	// certificate that is not trusted, a cancellation.
	RetryIf func(err error) bool
	// RetryResponse tells which responses are retried. If nil, those that
	// DefaultCheckRetry names. It must leave the body alone.
	RetryResponse func(resp *http.Response) bool
	// CheckRetry, if not nil, is asked about errors and responses, in place of the
	// two above. It has the type of go-retryablehttp's, and gets what it gets
	// there: errors are wrapped in a *url.Error. An error that it returns together
	// with false is the caller's, in place of the response, which is then closed.
	//
	// Neither this nor the two above are asked once the request's context is done,
	// nor about rejections; and what may be sent twice is not theirs to say:
	// Methods and AnyMethod do.
	CheckRetry func(ctx context.Context, resp *http.Response, err error) (bool, error)
	// RetryRejected lets rejections be retried: errors that match
	// [core.ErrRejected], and responses that [client.Reject] made of them. The
	// wait is at least what they ask for.
	RetryRejected bool

	// Methods lists the methods whose requests may be sent more than once. If nil,
	// it is the idempotent ones of RFC 9110: GET, HEAD, OPTIONS, TRACE, PUT,
	// DELETE. Requests with an Idempotency-Key header may be, and so may those
	// that did not reach a server at all ([client.NotSent]), whatever this says.
	Methods []string
	// AnyMethod lets every request be sent more than once, POST too. The server
	// must not mind.
	AnyMethod bool
	// MaxBuffer is how much of a body without GetBody is kept while it is sent, so
	// that it can be sent again. If zero, nothing is: such a request is repeated
	// only when nothing of its body was read. It must not be negative.
	MaxBuffer int64
	// ModifyRequest, if not nil, is called before each retry, not before the first
	// attempt, with a fresh copy of the caller's request and the number of the
	// retry, from 1. It may change the copy: sign it again, say. An error ends the
	// retries and is returned. If the context ends while it runs, nothing is sent.
	ModifyRequest func(req *http.Request, retry int) error
	// Drain limits the reading of a response that is thrown away. The wait before the
	// next attempt limits its time too.
	Drain client.Drain

	// Map, if not nil, is called exactly once, after the last attempt, with what
	// the caller would get. The caller gets what it returns: a response or an
	// error. It closes the response if it returns another one.
	Map func(resp *http.Response, err error) (*http.Response, error)

	// Hooks observe the plugin. Any of them may be nil. info.Result is the
	// *http.Response of the attempt, if there is one, and info.Err a
	// [*StatusError] when that is to be retried. The body is not theirs to read.
	Hooks Hooks
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config {
	c.Methods = slices.Clone(c.Methods)
	f(&c)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	errs := []error{c.core().Validate()}
	check := func(ok bool, field string, value any, reason string) {
		if !ok {
			errs = append(errs, &core.ConfigError{Field: "retry.Config." + field, Value: value, Reason: reason})
		}
	}
	check(c.MaxRetryAfter >= 0, "MaxRetryAfter", c.MaxRetryAfter, "must be >= 0 (0 means 2m0s)")
	check(c.MaxBuffer >= 0, "MaxBuffer", c.MaxBuffer, "must be >= 0 (0 keeps nothing)")
	for _, m := range c.Methods {
		check(m != "" && m == strings.ToUpper(m) && !strings.ContainsAny(m, " \t,"), "Methods", m, "must be a method as it is sent, as in POST")
	}
	return errors.Join(errs...)
}

// core returns the part of c that core/retry has too.
func (c Config) core() retry.Config {
	return retry.Config{
		Name:          c.Name,
		Registry:      c.Registry,
		MaxAttempts:   c.MaxAttempts,
		Backoff:       c.Backoff,
		Delay:         c.Delay,
		MaxElapsed:    c.MaxElapsed,
		Budget:        c.Budget,
		RetryIf:       c.RetryIf,
		RetryRejected: c.RetryRejected,
		Hooks:         c.Hooks,
	}
}

// withCore returns c with the part that core/retry has too as in shared.
func (c Config) withCore(shared *retry.Config) Config {
	c.Name, c.Registry = shared.Name, shared.Registry
	c.MaxAttempts, c.Backoff, c.Delay, c.MaxElapsed = shared.MaxAttempts, shared.Backoff, shared.Delay, shared.MaxElapsed
	c.Budget, c.RetryIf, c.RetryRejected, c.Hooks = shared.Budget, shared.RetryIf, shared.RetryRejected, shared.Hooks
	return c
}

func (c Config) maxAttempts() int {
	if c.MaxAttempts == 0 {
		return DefaultMaxAttempts
	}
	return c.MaxAttempts
}

func (c Config) maxRetryAfter() time.Duration {
	if c.MaxRetryAfter == 0 {
		return DefaultMaxRetryAfter
	}
	return c.MaxRetryAfter
}

// buffer is the limit for [client.NewReplay].
func (c Config) buffer() int64 {
	if c.MaxAttempts == 1 {
		return -1 // nothing will be sent again
	}
	return c.MaxBuffer
}

// repeatable tells whether req may be sent again, after err or a response.
func (c Config) repeatable(req *http.Request, err error) bool {
	switch {
	case c.AnyMethod, client.NotSent(err), client.HasIdempotencyKey(req):
		return true
	case c.Methods == nil:
		return client.Idempotent(req)
	case req.Method == "":
		return slices.Contains(c.Methods, http.MethodGet)
	}
	return slices.Contains(c.Methods, req.Method)
}
