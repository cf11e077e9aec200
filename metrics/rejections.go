package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/validate"
)

// A Side is where a request was rejected: on arrival at a server, or before a client
// sent it.
type Side uint8

// The two sides.
const (
	Server Side = iota
	Client
)

// String returns "server" or "client".
func (s Side) String() string {
	switch s {
	case Server:
		return "server"
	case Client:
		return "client"
	}
	return fmt.Sprintf("Side(%d)", uint8(s))
}

// MarshalText returns the text of String. A value without a name is an error.
func (s Side) MarshalText() ([]byte, error) { return validate.MarshalText(s, Client) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (s *Side) UnmarshalText(text []byte) error { return validate.UnmarshalText(s, Client, text) }

// rejections counts HTTP requests by side, reason and status.
type rejections struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	counts map[rejection]uint64
}

type rejection struct {
	side   Side
	reason string
	code   int // 0 without a response
}

// usual returns the rejections that the plugins make with their defaults. They are
// exported as 0 before the first, so that a rate includes the first.
func usual() []rejection {
	return []rejection{
		{Server, "rate_limited", 429},
		{Server, "rate_limited", 413},
		{Server, "circuit_open", 503},
		{Server, "timeout", 503},
		{Server, "rejected", 403},
		{Server, "rejected", 503},
		{Server, "other", 500},
		{Server, "other", 503},
		{Client, "rate_limited", 0},
		{Client, "circuit_open", 0},
		{Client, "circuit_open", 503},
		{Client, "timeout", 0},
		{Client, "rejected", 0},
		{Client, "other", 0},
	}
}

func (r *rejections) init(c *Collector) {
	r.desc = c.desc("http_rejections_total", "HTTP requests that were rejected, by reason and status; none: an error was returned instead of a response.", "side", "reason", "code")
	r.counts = map[rejection]uint64{}
	for _, known := range usual() {
		r.counts[known] = 0
	}
}

// Rejected counts an HTTP request that was rejected with err and answered with the
// status code; the code is 0 if the caller got an error instead of a response. A nil
// err counts nothing. The label reason is rate_limited, circuit_open, timeout, rejected
// (by another mechanism) or other, depending on the errors that err matches. Nothing
// calls it by itself: the example shows the calls for servers and for clients.
func (c *Collector) Rejected(side Side, err error, code int) {
	if err == nil {
		return
	}
	r := rejection{side: min(side, Client), reason: reason(err)}
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

func (r *rejections) collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, n := range r.counts {
		code := "none"
		if k.code != 0 {
			code = strconv.Itoa(k.code)
		}
		counter(ch, r.desc, n, k.side.String(), k.reason, code)
	}
}
