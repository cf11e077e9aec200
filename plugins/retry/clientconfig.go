package retry

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/request"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults of [Config]; the first is that of core/retry.
const (
	defaultMaxAttempts   = 3
	defaultMaxRetryAfter = 2 * time.Minute
)

// Config configures a [Plugin]. The zero value is ready to use: three attempts
// in all for requests that may be repeated, 500ms × 2 between them, spread by
// half, and the decisions of [DefaultCheckRetry].
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the plugin. If empty, it is "default".
	Name string
	// Registry registers the plugin under the kind "retry" and its name. If nil, it is
	// not registered.
	Registry *core.Registry

	// Disabled switches the plugin off: requests are sent once, without Map, Hooks
	// and counts. An Override sets it for one request.
	Disabled bool

	// MaxAttempts is the total number of attempts, the first one included.
	// If zero, it is 3. One means never retry. It must not be
	// negative.
	MaxAttempts int
	// Backoff computes the wait before each retry. If nil, 500ms, doubled each time,
	// at most 1min, spread by half.
	Backoff Strategy
	// Delay, if not nil, replaces Backoff. It is called right after a failed attempt.
	// info.Result is its *http.Response, if there is one, whose body
	// belongs to the plugin. A negative result counts as 0. [FromBackoff] makes
	// one of a Backoff of go-retryablehttp.
	Delay func(ctx context.Context, info Info) time.Duration
	// MaxElapsed limits the time from the start to the last attempt's start, waits
	// included. If zero, there is no limit. It must not be negative. A wait that
	// would reach it, or the deadline of the request's context, is not begun.
	MaxElapsed time.Duration
	// Budget limits the retries of all the plugins and policies that share it. If
	// nil, there is no such limit. [NewBudget] makes one.
	Budget *Budget
	// MaxRetryAfter is the longest wait that a response ([client.RetryAfter]), or a rejection,
	// can ask for. If it asks for more, the response is returned at once. If
	// zero, it is 2 minutes. It must not be negative.
	MaxRetryAfter time.Duration

	// RetryIf reports whether an error is retried. If nil, DefaultCheckRetry decides.
	// It is not called for an error that no retry can cure: a request that
	// cannot be sent, a name that does not exist, a server that does not speak TLS, a
	// certificate that is not trusted, a cancellation.
	RetryIf func(err error) bool
	// RetryResponse reports whether a response is retried. If nil, DefaultCheckRetry
	// decides. It must not read the body.
	RetryResponse func(resp *http.Response) bool
	// CheckRetry, if not nil, decides about errors and responses, instead of RetryIf
	// and RetryResponse. It has the type of go-retryablehttp's, and the same
	// arguments: errors are wrapped in a *url.Error. An error that it returns together
	// with false is returned to the caller instead of the response, which is then
	// closed.
	//
	// None of the three is called for rejections, or once the request's context is
	// done. Methods and AnyMethod, not they, decide which requests may be sent twice.
	CheckRetry func(ctx context.Context, resp *http.Response, err error) (bool, error)
	// RetryRejected lets rejections be retried: errors that match
	// [core.ErrRejected], and responses that [client.Reject] made of them. The
	// wait is at least their RetryAfter.
	RetryRejected bool

	// Methods lists the methods whose requests may be sent more than once. If nil,
	// it is the idempotent ones of RFC 9110: GET, HEAD, OPTIONS, TRACE, PUT,
	// DELETE. Whatever it contains, requests with an Idempotency-Key header may be
	// sent again, and so may requests that did not reach a server at all
	// ([client.NotSent]).
	Methods []string
	// AnyMethod lets every request be sent more than once, POST included. The server
	// must not mind.
	AnyMethod bool
	// MaxBuffer is how much of a body without GetBody is kept while it is sent, so
	// that it can be sent again. If zero, nothing is: such a request is repeated
	// only when nothing of its body was read. It must not be negative.
	MaxBuffer int64
	// ModifyRequest, if not nil, is called before each retry, not before the first
	// attempt, with a fresh copy of the caller's request and the number of the
	// retry, from 1. It may change the copy, for example to sign it again, and wrap or
	// replace its body: the old one is closed together with the new one. An error ends
	// the retries and is returned. If the context ends while it runs, nothing is sent.
	ModifyRequest func(req *http.Request, retry int) error
	// Drain limits the reading of a response that is discarded. The wait before the
	// next attempt limits its time too.
	Drain client.Drain

	// Map, if not nil, is called exactly once, after the last attempt, with the result
	// of the request. The caller gets the result of Map: a response or an error. If
	// Map returns another response, it must close the first.
	Map func(resp *http.Response, err error) (*http.Response, error)

	// Hooks observe the plugin. Any of them may be nil. info.Result is the
	// *http.Response of the attempt, if there is one, and info.Err a
	// [*StatusError] if that is retried. They must not read its body.
	Hooks Hooks
}

func (c Config) clone() Config {
	c.Methods = slices.Clone(c.Methods)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("retry.Config")
	check.Part(c.core().Validate())
	check.That(c.MaxRetryAfter >= 0, "MaxRetryAfter", c.MaxRetryAfter, "must be >= 0 (0 means 2m0s)")
	check.That(c.MaxBuffer >= 0, "MaxBuffer", c.MaxBuffer, "must be >= 0 (0 keeps nothing)")
	for _, m := range c.Methods {
		check.That(m != "" && m == strings.ToUpper(m) && !strings.ContainsAny(m, " \t,"), "Methods", m, "must be a method as it is sent, as in POST")
	}
	return check.Err()
}

// core returns the Config of the policy, which is not registered itself.
func (c Config) core() retry.Config {
	return retry.Config{
		Name:          c.Name,
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

func (c Config) maxAttempts() int { return cmp.Or(c.MaxAttempts, defaultMaxAttempts) }

func (c Config) maxRetryAfter() time.Duration { return cmp.Or(c.MaxRetryAfter, defaultMaxRetryAfter) }

// buffer is the limit for [client.NewReplay].
func (c Config) buffer() int64 {
	if c.MaxAttempts == 1 {
		return -1 // nothing will be sent again
	}
	return c.MaxBuffer
}

// repeatable reports whether req may be sent again, after err or a response.
func (c Config) repeatable(req *http.Request, err error) bool {
	switch {
	case c.AnyMethod, client.NotSent(err), request.HasIdempotencyKey(req):
		return true
	case c.Methods == nil:
		return client.Idempotent(req)
	case req.Method == "":
		return slices.Contains(c.Methods, http.MethodGet)
	}
	return slices.Contains(c.Methods, req.Method)
}
