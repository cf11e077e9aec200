package metrics

import (
	"errors"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/timeout"
)

// rejections counts HTTP requests by side, reason and status.
type rejections struct {
	mu     sync.Mutex
	counts map[rejection]uint64
}

type rejection struct {
	side   string // "server" or "client"
	reason string
	code   int // 0 without a response
}

// usual returns the rejections that the plugins make with their defaults. They are
// exported as 0 before the first, so that a rate includes the first.
func usual() []rejection {
	return []rejection{
		{"server", "rate_limited", 429},
		{"server", "rate_limited", 413},
		{"server", "circuit_open", 503},
		{"server", "timeout", 503},
		{"server", "rejected", 403},
		{"server", "rejected", 503},
		{"server", "other", 500},
		{"server", "other", 503},
		{"client", "rate_limited", 0},
		{"client", "circuit_open", 0},
		{"client", "circuit_open", 503},
		{"client", "timeout", 0},
		{"client", "rejected", 0},
		{"client", "other", 0},
	}
}

func (r *rejections) init() {
	r.counts = map[rejection]uint64{}
	for _, known := range usual() {
		r.counts[known] = 0
	}
}

// ServerRejected counts an HTTP request that a server rejected with err and answered with
// the status code. A nil err counts nothing. The label reason is rate_limited,
// circuit_open, timeout, rejected (by another mechanism) or other, depending on the errors
// that err matches. Nothing calls it by itself: see the example.
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
	c.rejections.mu.Lock()
	defer c.rejections.mu.Unlock()
	c.rejections.counts[r]++
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

func (r *rejections) collect(c *Collector, ch chan<- prometheus.Metric) {
	desc := c.desc("http_rejections_total", "HTTP requests that were rejected, by reason and status; none: an error was returned instead of a response.", "side", "reason", "code")
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, n := range r.counts {
		code := "none"
		if k.code != 0 {
			code = strconv.Itoa(k.code)
		}
		counter(ch, desc, n, k.side, k.reason, code)
	}
}
