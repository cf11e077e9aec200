// Package resiltest is a kit for tests of HTTP clients: a server or a transport
// that fails by a script, and counters for bodies and connections that stay open. It
// imports only the standard library.
//
//	func TestMyClient(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) { // an hour takes no time
//			script := resiltest.NewScript(
//				resiltest.Reply{Status: 503, Header: http.Header{"Retry-After": {"3600"}}},
//				resiltest.Reply{Body: "half of i", Reset: true},
//				resiltest.Reply{Body: "all of it"},
//			)
//			srv := resiltest.Serve(t, resiltest.NewNetwork(), script)
//			base := resiltest.Count(t, srv.Transport()) // fails the test when a body stays open
//			got, err := mine.New(base).Fetch(t.Context(), srv.URL)
//			// ... and script.Attempts(), script.Waits(), srv.Total
//		})
//	}
//
// Stand-ins for the server, from the fastest to the most realistic:
//
//   - a [Script] as the [net/http.RoundTripper] itself: no connection, one goroutine;
//   - a Script or any other handler, as a [Server] in a [Network]: the real net/http
//     on both ends, over connections in memory;
//   - the same on loopback sockets, with a listener of package net;
//   - a function of your own for each connection that a [Network] accepts.
//
// All but loopback sockets work in bubbles of testing/synctest: make what belongs to
// a bubble inside it, with the bubble's t. Waits are those of package time, and end
// when the request's context does.
//
// # Guarantees
//
//   - A Script keeps the contract of RoundTripper: it closes the request's body and
//     does not change the request.
//   - All types can be used by many goroutines at once.
//   - A Script keeps at most 64 KiB of the body of each attempt. The number of attempts
//     is not bounded.
package resiltest

import (
	"context"
	"time"
)

// Patience is how long [Eventually] waits: much in net/http ends a moment later than its caller.
const Patience = 30 * time.Second

// Eventually repeats a check until it succeeds or Patience is over, and reports which.
func Eventually(ok func() bool) bool {
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// pause waits for d, or for ever if it is negative. It fails where ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	over := ctx
	if d >= 0 {
		var cancel context.CancelFunc
		over, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	<-over.Done()
	return context.Cause(ctx)
}
