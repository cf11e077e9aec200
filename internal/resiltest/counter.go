package resiltest

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// A Counter is a transport that counts what it has sent and what is open.
type Counter struct {
	base http.RoundTripper

	Requests atomic.Int64
	InFlight atomic.Int64 // requests without headers or an error yet
	Open     atomic.Int64 // bodies of responses; one that was read to its end is open until it is closed
}

// Count wraps base. It fails the test if a body is open or a request is in flight at its end.
func Count(tb testing.TB, base http.RoundTripper) *Counter {
	tb.Helper()
	c := &Counter{base: base}
	tb.Cleanup(func() {
		tb.Helper()
		if !Eventually(c.Settled) {
			tb.Errorf("resiltest: of %d requests, %d bodies are not closed, and %d are in flight", c.Requests.Load(), c.Open.Load(), c.InFlight.Load())
		}
	})
	return c
}

// Settled reports whether nothing is open.
func (c *Counter) Settled() bool { return c.Open.Load() == 0 && c.InFlight.Load() == 0 }

// RoundTrip sends the request with the transport inside.
func (c *Counter) RoundTrip(req *http.Request) (*http.Response, error) {
	c.Requests.Add(1)
	c.InFlight.Add(1)
	defer c.InFlight.Add(-1)
	resp, err := c.base.RoundTrip(req)
	if resp != nil {
		c.Open.Add(1)
		resp.Body = &Body{next: resp.Body, onClose: func() { c.Open.Add(-1) }}
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (c *Counter) CloseIdleConnections() { (&http.Client{Transport: c.base}).CloseIdleConnections() }
