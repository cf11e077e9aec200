package standard

import (
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

// Config configures a [Client]. The zero value is ready to use. A zero field of a part
// has the default that is named here; otherwise, that of the part.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the parts that have no name of their own: the timeouts are called
	// Name-total and Name-attempt. If empty, it is "standard".
	Name string
	// Registry registers the parts that have no Registry of their own. If nil, they are
	// not registered.
	Registry *core.Registry

	// HTTP has the CheckRedirect, Jar and Timeout of the http.Client. Timeout should be
	// zero, and must otherwise be at least as long as Total. Its Transport is the base; if
	// that is nil, a clone of http.DefaultTransport is used.
	HTTP http.Client

	// Total is for all attempts, the waits between them and the body. If its
	// Limit is zero, it is 30 seconds.
	Total timeout.Config
	// Retry makes 4 attempts in all of requests that may be sent again. Its Backoff is
	// 200ms, doubled each time, at most 10 seconds, and of that a random part (full
	// jitter); its MaxRetryAfter is 10 seconds.
	Retry retry.Config
	// Limit delays requests. Its Limit is 1000 per second for each host, unless there is a
	// Limiter of x/time.
	Limit ratelimit.ClientConfig
	// Breaker rejects requests to a host that keeps failing.
	Breaker breaker.Config
	// Attempt is for each attempt, until the headers of its response. If its
	// Limit is zero, it is 10 seconds, or that of Total if it is less.
	Attempt timeout.Config

	// Plugins are further plugins, at the places of their phases.
	Plugins []client.Plugin
}

// resolved returns c with the defaults instead of zeros.
func (c Config) resolved() Config {
	fill(&c.Name, "standard")
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
			c.Limit.Limit = corelimit.PerSecond(1000)
		}
	}
	fill(&c.Total.Limit, 30*time.Second)
	if c.Attempt.Limit == 0 {
		c.Attempt.Limit = 10 * time.Second
		if total := c.Total.Limit; total > 0 {
			c.Attempt.Limit = min(c.Attempt.Limit, total)
		}
	}
	fill(&c.Retry.MaxAttempts, 4)
	fill(&c.Retry.MaxRetryAfter, 10*time.Second)
	if c.Retry.Backoff == nil {
		c.Retry.Backoff = backoff.Exponential{Delay: 200 * time.Millisecond, Max: 10 * time.Second, Jitter: 1}
	}
	return c
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
	c = c.resolved()
	check := validate.Of("standard.Config")
	part := func(field string, err error, typ string) {
		check.Part(validate.Relabel(err, "standard.Config."+field+".", typ+"."))
	}
	part("Retry", c.Retry.Validate(), "retry.Config")
	part("Limit", c.Limit.Validate(), "ratelimit.ClientConfig")
	part("Breaker", c.Breaker.Validate(), "breaker.Config")
	total, attempt, window, whole := c.Total.Limit, c.Attempt.Limit, c.Breaker.WindowTime, c.HTTP.Timeout
	check.That(total <= 0 || attempt <= total, "Attempt.Limit", attempt, fmt.Sprintf("must be at most that of Total, %v, or nothing is retried after it", total))
	check.That(window <= 0 || attempt <= 0 || window/2 >= attempt, "Breaker.WindowTime", window, fmt.Sprintf("must be at least twice the limit of an attempt, %v, or it forgets what is slow", attempt))
	if total > 0 {
		check.That(whole == 0 || whole >= total, "HTTP.Timeout", whole, fmt.Sprintf("must be 0, or at least the limit of Total, %v", total))
	} else {
		check.That(whole == 0 || attempt <= whole, "HTTP.Timeout", whole, fmt.Sprintf("must be 0, or at least the limit of an attempt, %v", attempt))
	}
	return check.Err()
}
