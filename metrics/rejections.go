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

// A Side tells who rejected: the server a request, or the client a call of its own.
type Side uint8

// The two sides.
const (
	Server Side = iota
	Client
)

// String returns "server" or "client".
func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

// rejections counts by what HTTP users see.
type rejections struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	counts map[rejection]uint64
}

type rejection struct {
	side   Side
	reason string
	code   int // 0 where there is no response
}

func (r *rejections) init(c *Collector) {
	r.desc = c.desc("http_rejections_total", "HTTP requests that a mechanism rejected, by why and by the status of the answer; none where an error was returned.", "side", "reason", "code")
	r.counts = map[rejection]uint64{}
}

// Rejected counts an HTTP request that was rejected with err and answered with the
// status code, which is 0 where the client was given an error in place of a response.
// Collectors do not know HTTP: the example shows who calls it, for servers and for
// clients. A nil err counts nothing. The reason is rate_limited, circuit_open,
// timeout, rejected (by another mechanism) or other, by what err matches.
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
