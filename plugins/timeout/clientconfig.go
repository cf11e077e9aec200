package timeout

import (
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
)

// Config configures a [Client]. The zero value is ready to use: 30 seconds in
// total, or 10 for an attempt.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the plugin, also in its errors. If empty, it is "total" or
	// "attempt".
	Name string
	// Registry registers the plugin under the kind "timeout" and its name. If nil, it
	// is not registered.
	Registry *core.Registry

	// Disabled switches the plugin off: requests have no limit and are not counted. An
	// Override sets it for one request.
	Disabled bool

	// Limit is the time that an exchange may take, the sending of its body included. If
	// zero, it is 30 seconds in total or 10 for an attempt. If negative, there is no
	// limit.
	Limit time.Duration
	// HeadersOnly ends a total limit as soon as the headers of the response are there.
	// It must be false for the limit of an attempt, which ends there in any case.
	HeadersOnly bool
	// CutBody extends the limit of an attempt until the body is read or closed. It must
	// be false for a total limit, which lasts that long in any case.
	CutBody bool
	// ResponseHeader limits the time from the end of the request, its body included, to
	// the headers of the response, as http.Transport.ResponseHeaderTimeout does. It does
	// not limit an upload, as Limit does. It applies in addition to Limit, and without
	// one. It must be 0 for a total limit. It needs a transport that
	// reports WroteRequest of net/http/httptrace, as those of net/http do. If an inner
	// RoundTripper sends the attempt more than once, it counts from the last time. If
	// zero, there is no limit. It must not be negative.
	ResponseHeader time.Duration
	// BodyIdle limits the wait of each read of the response body for a byte. A read that
	// waits longer fails with an [*Error] of this limit, and the connection, or the
	// HTTP/2 stream, is closed. An upgraded connection (101) has no such limit, and a
	// body that is not of net/http must respect the request's context. The time between
	// two reads does not count, nor does the time until the headers arrive. It applies
	// in addition to Limit, and without one. If zero, there is no limit. It must not be
	// negative.
	BodyIdle time.Duration
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("timeout.Config")
	check.That(c.ResponseHeader >= 0, "ResponseHeader", c.ResponseHeader, "must be >= 0 (0 means no limit)")
	check.That(c.BodyIdle >= 0, "BodyIdle", c.BodyIdle, "must be >= 0 (0 means no limit)")
	check.That(!c.HeadersOnly || !c.CutBody, "CutBody", true, "must be false when HeadersOnly is set")
	return check.Err()
}
