package metrics

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"path"
	"reflect"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/internal/roundtrip"
)

// A rejection is a class of rejected HTTP requests.
type rejection struct {
	side   string // "server" or "client"
	reason string
	code   string // "none" if there was no response
}

// Handler counts the requests that plugins inside of it reject, by status and reason, as resilience_http_rejections_total:
//
//	server.New(server.Middleware(collector.Handler, server.Monitoring), limits)
func (c *Collector) Handler(next http.Handler) http.Handler {
	c.usual("server", "rate_limited", "429", "circuit_open", "503", "rejected", "503")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, note := reject.Watch(r.Context())
		defer func() {
			if last := note.Get(); !errors.Is(last.Err, context.Canceled) { // a client that leaves is not rejected
				c.count("server", last.Err, last.Status)
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Transport counts the requests that plugins inside of it reject, by reason. A nil next is a clone of http.DefaultTransport.
//
//	httpClient := &http.Client{Transport: collector.Transport(client.New(nil, breakers, retries))}
func (c *Collector) Transport(next http.RoundTripper) http.RoundTripper {
	c.usual("client", "rate_limited", "none", "circuit_open", "none", "rejected", "none")
	if next == nil {
		next = roundtrip.Default()
	}
	return &transport{c, next}
}

type transport struct {
	collector *Collector
	next      http.RoundTripper
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if errors.Is(err, core.ErrRejected) && !errors.Is(err, blame.ErrHeld) {
		t.collector.count("client", err, 0)
	}
	return resp, err
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// usual begins to export the usual rejections at 0, so that a rate includes the first. pairs alternates reasons and codes.
func (c *Collector) usual(side string, pairs ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(pairs); i += 2 {
		c.rejections[rejection{side, pairs[i], pairs[i+1]}] += 0
	}
}

// count counts a request that was rejected with err. If err is nil, there was no rejection.
func (c *Collector) count(side string, err error, status int) {
	if err == nil {
		return
	}
	r := rejection{side: side, reason: reason(err), code: "none"}
	if 100 <= status && status <= 599 {
		r.code = strconv.Itoa(status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejections[r]++
}

// reason returns why a request was rejected. It follows from the package of the error; for errors of other modules, and for a limiter whose
// store has failed, it is "rejected".
func reason(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		if errs, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range errs.Unwrap() {
				if found := reason(e); found != "rejected" {
					return found
				}
			}
		}
		t := reflect.TypeOf(err)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch dir, kind := path.Split(t.PkgPath()); {
		case !errors.Is(err, core.ErrRejected): // another error in the tree, such as that of a store
		case dir == "github.com/gresil/gresil/outbound/" && kind == "gate":
			return "rate_limited"
		case dir != "github.com/gresil/gresil/core/":
		case kind == "ratelimit":
			return "rate_limited"
		case kind == "breaker":
			return "circuit_open"
		case kind != "retry": // it wraps another error
			return kind
		}
	}
	return "rejected"
}

func (c *Collector) collectRejections(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	counts := maps.Clone(c.rejections)
	c.mu.Unlock()
	for r, n := range counts {
		ch <- c.metric("http_rejections_total",
			"HTTP requests that were rejected, by reason and status; none: an error was returned instead of a response.",
			prometheus.CounterValue, float64(n), "side", r.side, "reason", r.reason, "code", r.code)
	}
}
