package timeout

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// What a [ServerConfig] has that does not say.
const (
	DefaultServerName  = "server"
	DefaultServerLimit = timeout.DefaultLimit
	DefaultMaxBuffer   = 64 << 10
	DefaultStatus      = http.StatusServiceUnavailable
)

// ServerConfig configures a [Server]. The zero value is ready to use: 30 seconds
// until the response begins.
//
// A ServerConfig is a plain value: copy it to derive another one from it.
type ServerConfig struct {
	// Name names the plugin, also in its errors. If empty, DefaultServerName is
	// used.
	Name string
	// Registry is where the *timeout.Timeout of core/timeout that the plugin
	// stands on is found under the kind "timeout" and its name. If nil, it is in
	// none.
	Registry *core.Registry

	// Limit is the time that a handler may take until its response begins. If
	// zero, DefaultServerLimit is used. If negative, there is no limit: the handler
	// then runs as if there were no plugin.
	Limit time.Duration
	// CutBody lets the limit hold until the handler returns. A response that has
	// begun is then broken off together with its connection.
	CutBody bool
	// MaxBuffer is how many bytes of a response are held back: with more than that
	// it begins. If zero, DefaultMaxBuffer is used. It must not be negative.
	MaxBuffer int

	// Status is the status at the limit: 503, or 504 for a handler that waits for
	// another server on behalf of the client, or another 5xx. If zero,
	// DefaultStatus is used.
	Status int
	// RetryAfter tells the client how long to wait before it tries again, rounded
	// up to seconds. If zero, it is not told. It must not be negative.
	RetryAfter time.Duration

	// Late, if not nil, is called when a handler ends after its request was
	// answered for at the limit, by the goroutine of that handler. A panic in it is
	// recovered and counted.
	Late func(ctx context.Context, late Late)
	// Panicked, if not nil, is called when a handler panics in time, before the
	// panic goes on: it alone has the stack of the handler. It is not called for
	// [http.ErrAbortHandler]. A panic in it is recovered and counted.
	Panicked func(ctx context.Context, panicked Panicked)
	// Hooks observe the plugin. Any of them may be nil.
	Hooks Hooks
}

// Panicked tells of a handler that panicked in time.
type Panicked struct {
	Value any
	Stack []byte // of the handler
}

// Late tells of a handler that ended after its request was answered for.
type Late struct {
	Elapsed time.Duration // since it began
	Panic   any           // what it panicked with, or nil
	Stack   []byte        // of the panic
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c ServerConfig) With(f func(*ServerConfig)) ServerConfig {
	f(&c)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ServerConfig) Validate() error {
	errs := []error{c.core().Validate()}
	check := func(ok bool, field string, value any, reason string) {
		if !ok {
			errs = append(errs, &core.ConfigError{Field: "timeout.ServerConfig." + field, Value: value, Reason: reason})
		}
	}
	check(c.MaxBuffer >= 0, "MaxBuffer", c.MaxBuffer, "must be >= 0 (0 means 65536)")
	check(c.Status == 0 || c.Status >= 500 && c.Status <= 599, "Status", c.Status, "must be from 500 to 599 (0 means 503)")
	check(c.RetryAfter >= 0, "RetryAfter", c.RetryAfter, "must be >= 0 (0 means none)")
	return errors.Join(errs...)
}

// core returns the part of c that core/timeout has too.
func (c ServerConfig) core() timeout.Config {
	return timeout.Config{Name: c.name(), Registry: c.Registry, Limit: c.limit(), Hooks: c.Hooks}
}

func (c ServerConfig) name() string {
	if c.Name == "" {
		return DefaultServerName
	}
	return c.Name
}

func (c ServerConfig) limit() time.Duration {
	if c.Limit == 0 {
		return DefaultServerLimit
	}
	return c.Limit
}

func (c ServerConfig) maxBuffer() int {
	if c.MaxBuffer == 0 {
		return DefaultMaxBuffer
	}
	return c.MaxBuffer
}

func (c ServerConfig) status() int {
	if c.Status == 0 {
		return DefaultStatus
	}
	return c.Status
}
