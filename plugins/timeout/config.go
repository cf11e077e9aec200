package timeout

import (
	"errors"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// The names and limits of a [Config] that has none.
const (
	DefaultTotalName    = "total"
	DefaultTotalLimit   = timeout.DefaultLimit
	DefaultAttemptName  = "attempt"
	DefaultAttemptLimit = 10 * time.Second
)

// What the plugins share with core/timeout, so that one import is enough.
type (
	// Error is the error of an exchange that was over its limit, and the cause with
	// which its context ends.
	Error = timeout.Error
	// Hooks observe the timeouts.
	Hooks = timeout.Hooks
	// Info tells of a timeout.
	Info = timeout.Info
	// Stats are counts since the plugin was made.
	Stats = timeout.Stats
)

// ErrTimeout is matched by every [*Error].
var ErrTimeout = timeout.ErrTimeout

// Config configures a [Client]. The zero value is ready to use: 30 seconds in
// total, or 10 for an attempt.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the plugin, also in its errors. If empty, it is DefaultTotalName
	// or DefaultAttemptName.
	Name string
	// Registry is where the *timeout.Timeout of core/timeout that the plugin
	// stands on is found under the kind "timeout" and its name. If nil, it is in
	// none.
	Registry *core.Registry

	// Limit is the time that an exchange may take, the sending of its body included. If zero, it is
	// DefaultTotalLimit or DefaultAttemptLimit. If negative, there is no limit.
	Limit time.Duration
	// HeadersOnly ends the total limit as soon as the headers of the response are
	// there. The limit of an attempt ends there anyway.
	HeadersOnly bool
	// CutBody lets the limit of an attempt hold until the body is read or closed.
	// The total limit does so anyway. It excludes HeadersOnly.
	CutBody bool
	// ResponseHeader limits the time from the end of the request, its body included, to
	// the headers of the response, as http.Transport.ResponseHeaderTimeout does. It does
	// not limit an upload, as Limit does. It holds beside Limit, and without one. It is
	// for an attempt, not for a total limit, and needs a transport that reports
	// WroteRequest of net/http/httptrace, as those of net/http do. If zero, there is no
	// limit. It must not be negative.
	ResponseHeader time.Duration
	// BodyIdle is how long a read of the response body may wait for a byte: one that
	// waits longer fails with an [*Error] of this limit, and the connection is closed, or
	// with HTTP/2 the stream. An upgraded connection (101) has no such limit, and a body
	// that is not of net/http has to mind the request's context.
	// The time between two reads does not count, nor does that until the headers are
	// there. It holds beside Limit, and without one. If zero, there is no limit. It
	// must not be negative.
	BodyIdle time.Duration

	// Hooks observe the plugin. Any of them may be nil.
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
	errs := []error{c.core().Validate()}
	if c.ResponseHeader < 0 {
		errs = append(errs, &core.ConfigError{Field: "timeout.Config.ResponseHeader", Value: c.ResponseHeader, Reason: "must be >= 0 (0 means no limit)"})
	}
	if c.BodyIdle < 0 {
		errs = append(errs, &core.ConfigError{Field: "timeout.Config.BodyIdle", Value: c.BodyIdle, Reason: "must be >= 0 (0 means no limit)"})
	}
	if c.HeadersOnly && c.CutBody {
		errs = append(errs, &core.ConfigError{Field: "timeout.Config.CutBody", Value: true, Reason: "must be false when HeadersOnly is set"})
	}
	return errors.Join(errs...)
}

// Off removes all limits: ctx = plugin.Override(ctx, timeout.Off).
func Off(c *Config) { c.Limit, c.ResponseHeader, c.BodyIdle = -1, 0, 0 }

// core returns the part of c that core/timeout has too.
func (c Config) core() timeout.Config {
	return timeout.Config{Name: c.Name, Registry: c.Registry, Limit: c.Limit, Hooks: c.Hooks}
}
