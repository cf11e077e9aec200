package metrics

import (
	"errors"
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/timeout"
)

// A rejection is a sort of rejected HTTP requests.
type rejection struct {
	side   string // "server" or "client"
	reason string
	code   int // 0 without a response
}

// usual returns the counts of the rejections that the plugins make with their defaults. They
// are exported as 0 before the first, so that a rate includes the first.
func usual() map[rejection]uint64 {
	return map[rejection]uint64{
		{"server", "rate_limited", 429}: 0,
		{"server", "rate_limited", 413}: 0,
		{"server", "circuit_open", 503}: 0,
		{"server", "timeout", 503}:      0,
		{"server", "rejected", 403}:     0,
		{"server", "rejected", 503}:     0,
		{"server", "other", 500}:        0,
		{"server", "other", 503}:        0,
		{"client", "rate_limited", 0}:   0,
		{"client", "circuit_open", 0}:   0,
		{"client", "circuit_open", 503}: 0,
		{"client", "timeout", 0}:        0,
		{"client", "rejected", 0}:       0,
		{"client", "other", 0}:          0,
	}
}

// ServerRejected counts an HTTP request that a server rejected with err and answered with
// the status code. A nil err counts nothing. The label reason is rate_limited,
// circuit_open, timeout, rejected (by another mechanism) or other, depending on the errors
// that err matches. Nothing calls it by itself: see the example. As wired there, timeout of a
// server stays 0, since a handler that ran until its limit was not rejected: that is
// resilience_timeout_calls_total with the result timeout.
func (c *Collector) ServerRejected(err error, code int) { c.rejected("server", err, code) }

// ClientRejected is [Collector.ServerRejected] for a request that a client rejected before it
// was sent. The code is 0 if the caller got an error instead of a response.
func (c *Collector) ClientRejected(err error, code int) { c.rejected("client", err, code) }

func (c *Collector) rejected(side string, err error, code int) {
	if err == nil {
		return
	}
	r := rejection{side: side, reason: reason(err)}
	if 100 <= code && code <= 599 {
		r.code = code
	}
	c.rejecting.Lock()
	defer c.rejecting.Unlock()
	c.rejections[r]++
}

func reason(err error) string {
	var late *timeout.Error
	switch {
	case errors.Is(err, ratelimit.ErrLimited):
		return "rate_limited"
	case errors.Is(err, breaker.ErrOpen):
		return "circuit_open"
	case errors.As(err, &late):
		return "timeout"
	case errors.Is(err, core.ErrRejected):
		return "rejected"
	}
	return "other"
}

func (c *Collector) collectRejections(ch chan<- prometheus.Metric) {
	desc := c.desc("http_rejections_total", "HTTP requests that were rejected, by reason and status; none: an error was returned instead of a response.", "side", "reason", "code")
	c.rejecting.Lock()
	counts := maps.Clone(c.rejections)
	c.rejecting.Unlock()
	for k, n := range counts {
		code := "none"
		if k.code != 0 {
			code = strconv.Itoa(k.code)
		}
		counter(ch, desc, n, k.side, k.reason, code)
	}
}
