package resiltest

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// A Counter is a transport that counts requests and bodies.
type Counter struct {
	base                                     http.RoundTripper
	requests, inFlight, opened, closedBodies atomic.Int64
}

// Counts are the figures of a Counter.
type Counts struct {
	Requests int64 // that were sent
	InFlight int64 // of these, without headers or an error yet
	Opened   int64 // bodies of responses
	Closed   int64 // of these; a body read to its end counts only when it is closed
}

// Count wraps base. It fails the test if a body is open or a request is in flight at its end.
func Count(tb testing.TB, base http.RoundTripper) *Counter {
	tb.Helper()
	c := &Counter{base: base}
	tb.Cleanup(func() {
		tb.Helper()
		if !eventually(func() bool { n := c.Counts(); return n.Opened == n.Closed && n.InFlight == 0 }) {
			n := c.Counts()
			tb.Errorf("resiltest: %d of %d response bodies are not closed, %d of %d requests are in flight",
				n.Opened-n.Closed, n.Opened, n.InFlight, n.Requests)
		}
	})
	return c
}

// Counts returns the counts so far. A request in progress might be counted in one of them and not yet in another.
func (c *Counter) Counts() Counts {
	closed := c.closedBodies.Load() // before opened, to be never more
	return Counts{c.requests.Load(), c.inFlight.Load(), c.opened.Load(), closed}
}

// RoundTrip sends the request with the transport inside.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	resp, err := c.base.RoundTrip(req)
	if resp != nil {
		c.opened.Add(1)
		body := WrapBody(resp.Body)
		body.onClose = func() { c.closedBodies.Add(1) }
		resp.Body = body
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (c *Counter) CloseIdleConnections() { (&http.Client{Transport: c.base}).CloseIdleConnections() }
