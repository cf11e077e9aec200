package resiltest

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
)

// A Counter is a transport that counts requests and bodies.
type Counter struct {
	base                                                http.RoundTripper
	requests, inFlight, most, opened, closed, redundant atomic.Int64
}

// Counts are the figures of a Counter.
type Counts struct {
	Requests     int64 // that were sent
	InFlight     int64 // of these, without headers or an error yet
	MostInFlight int64 // at once, so far
	Opened       int64 // bodies of responses
	Closed       int64 // of these, closed; a body read to its end counts only when it is closed
	ClosedAgain  int64 // calls of Close for a body that was closed
}

// Count wraps base. At the end of the test it fails the test if a body is open or a
// request is in flight. If tb is nil, it only counts.
//
//nolint:thelper // it may be nil
func Count(tb testing.TB, base http.RoundTripper) *Counter {
	c := &Counter{base: base}
	if tb != nil {
		tb.Helper()
		tb.Cleanup(func() {
			tb.Helper()
			if !eventually(func() bool { n := c.Counts(); return n.Opened == n.Closed && n.InFlight == 0 }) {
				n := c.Counts()
				tb.Errorf("resiltest: %d of %d response bodies are not closed, %d of %d requests are in flight", n.Opened-n.Closed, n.Opened, n.InFlight, n.Requests)
			}
		})
	}
	return c
}

// Counts returns the counts so far. A request in progress might be counted in one of
// them and not yet in another.
func (c *Counter) Counts() Counts {
	closed := c.closed.Load() // before opened, to be never more
	return Counts{
		Requests: c.requests.Load(), InFlight: c.inFlight.Load(), MostInFlight: c.most.Load(),
		Opened: c.opened.Load(), Closed: closed, ClosedAgain: c.redundant.Load(),
	}
}

// RoundTrip sends the request with the transport inside.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	n := c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); {
		most = c.most.Load()
	}
	resp, err := c.base.RoundTrip(req)
	if resp != nil && resp.Body != nil {
		c.opened.Add(1)
		w, writes := resp.Body.(io.Writer)
		body := WrapBody(resp.Body)
		body.onClose = func(again bool) {
			if again {
				c.redundant.Add(1)
			} else {
				c.closed.Add(1)
			}
		}
		resp.Body = withWriter(body, w, writes)
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the wrapped transport, if that
// has the method.
func (c *Counter) CloseIdleConnections() {
	if base, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
