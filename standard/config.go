package standard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	corelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// Defaults of a [Config] that differ from those of its parts.
const (
	DefaultName           = "standard"
	DefaultMaxAttempts    = 4
	DefaultBackoff        = 200 * time.Millisecond
	DefaultMaxBackoff     = 10 * time.Second
	DefaultMaxRetryAfter  = 10 * time.Second
	DefaultLimit          = 1000
	DefaultFailureRate    = 0.1
	DefaultBreakerWindow  = 30 * time.Second
	DefaultMinCalls       = 100
	DefaultOpenTime       = 5 * time.Second
	DefaultTotalTimeout   = 30 * time.Second
	DefaultAttemptTimeout = 10 * time.Second
)

// Config configures a [Client]. The zero value is ready to use. A zero field of a part
// has the default that is named here; otherwise, that of the part.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the parts that have no name of their own: the timeouts are called
	// Name-total and Name-attempt. If empty, it is DefaultName.
	Name string
	// Registry registers the parts that have no Registry of their own. If nil, they are
	// not registered.
	Registry *core.Registry

	// HTTP has the CheckRedirect, Jar and Timeout of the http.Client. Timeout should be
	// zero, and must otherwise be at least as long as Total. Its Transport is the base; if
	// that is nil, a clone of http.DefaultTransport is used.
	HTTP http.Client

	// Total is for all attempts, the waits between them and the body. Its Limit is
	// DefaultTotalTimeout if zero.
	Total timeout.Config
	// Retry makes DefaultMaxAttempts attempts in all of requests that may be sent again. Its
	// Backoff is DefaultBackoff, doubled each time, at most DefaultMaxBackoff, and of
	// that a random part (full jitter); its MaxRetryAfter is DefaultMaxRetryAfter.
	Retry retry.Config
	// Limit delays requests. Its Limit is DefaultLimit per second for each host, unless
	// there is a Limiter of x/time.
	Limit ratelimit.ClientConfig
	// Breaker rejects requests to a host that keeps failing: DefaultFailureRate of at
	// least DefaultMinCalls within a WindowTime of DefaultBreakerWindow, or twice the
	// attempt's limit if that is more. It opens for DefaultOpenTime, doubled each time
	// that the trials fail. With a Window the WindowTime is not set.
	Breaker breaker.ClientConfig
	// Attempt is for each attempt, until the headers of its response. Its Limit is
	// DefaultAttemptTimeout if zero, or that of Total if it is less.
	Attempt timeout.Config

	// Plugins are further plugins, at the places of their phases.
	Plugins []client.Plugin
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config {
	f(&c)
	return c
}

// Resolved returns c with the defaults instead of zeros, as [New] uses it.
func (c Config) Resolved() Config {
	if c.Name == "" {
		c.Name = DefaultName
	}
	fill(&c.Total.Name, c.Name+"-total")
	fill(&c.Attempt.Name, c.Name+"-attempt")
	for _, name := range []*string{&c.Retry.Name, &c.Limit.Name, &c.Breaker.Name} {
		fill(name, c.Name)
	}
	for _, registry := range []**core.Registry{&c.Total.Registry, &c.Retry.Registry, &c.Breaker.Registry, &c.Attempt.Registry} {
		fill(registry, c.Registry)
	}
	if c.Limit.Limiter == nil {
		fill(&c.Limit.Registry, c.Registry)
		if (c.Limit.Limit == corelimit.Limit{}) {
			c.Limit.Limit = corelimit.PerSecond(DefaultLimit)
		}
	}
	fill(&c.Total.Limit, DefaultTotalTimeout)
	if c.Attempt.Limit == 0 {
		c.Attempt.Limit = DefaultAttemptTimeout
		if total := limitOf(c.Total); total > 0 {
			c.Attempt.Limit = min(c.Attempt.Limit, total)
		}
	}
	fill(&c.Retry.MaxAttempts, DefaultMaxAttempts)
	fill(&c.Retry.MaxRetryAfter, DefaultMaxRetryAfter)
	if c.Retry.Backoff == nil {
		c.Retry.Backoff = backoff.FullJitter(backoff.Exponential{Initial: DefaultBackoff, Max: DefaultMaxBackoff}, nil)
	}
	fill(&c.Breaker.FailureRate, DefaultFailureRate)
	if c.Breaker.Window == 0 {
		fill(&c.Breaker.WindowTime, max(DefaultBreakerWindow, 2*limitOf(c.Attempt)))
		fill(&c.Breaker.MinCalls, DefaultMinCalls)
	}
	if c.Breaker.OpenDelay == nil {
		c.Breaker.OpenDelay = backoff.Exponential{Initial: DefaultOpenTime, Max: 10 * time.Minute, Jitter: 0.2}
	}
	return c
}

// limitOf returns the limit of a resolved part, negative if there is none.
func limitOf(c timeout.Config) time.Duration {
	if c.Disabled {
		return -1
	}
	return c.Limit
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every field that cannot be used, joined, those of the parts, too.
// Each is a [*core.ConfigError].
func (c Config) Validate() error {
	c = c.Resolved()
	errs := []error{
		validate.Relabel(c.Total.Validate(), "standard.Config.Total.", "timeout.Config."),
		validate.Relabel(c.Retry.Validate(), "standard.Config.Retry.", "retry.Config."),
		validate.Relabel(c.Limit.Validate(), "standard.Config.Limit.", "ratelimit.ClientConfig."),
		validate.Relabel(c.Breaker.Validate(), "standard.Config.Breaker.", "breaker.ClientConfig."),
		validate.Relabel(c.Attempt.Validate(), "standard.Config.Attempt.", "timeout.Config."),
	}
	check := func(ok bool, field string, value any, format string, args ...any) {
		if !ok {
			errs = append(errs, &core.ConfigError{Field: "standard.Config." + field, Value: value, Reason: fmt.Sprintf(format, args...)})
		}
	}
	total, attempt, window, whole := limitOf(c.Total), limitOf(c.Attempt), c.Breaker.WindowTime, c.HTTP.Timeout
	check(total <= 0 || attempt <= total, "Attempt.Limit", attempt, "must be at most that of Total, %v, or nothing is retried after it", total)
	check(window <= 0 || attempt <= 0 || window/2 >= attempt, "Breaker.WindowTime", window, "must be at least twice the limit of an attempt, %v, or it forgets what is slow", attempt)
	if total > 0 {
		check(whole == 0 || whole >= total, "HTTP.Timeout", whole, "must be 0, or at least the limit of Total, %v", total)
	} else {
		check(whole == 0 || attempt <= whole, "HTTP.Timeout", whole, "must be 0, or at least the limit of an attempt, %v", attempt)
	}
	return errors.Join(errs...)
}
