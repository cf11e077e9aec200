// Package standard makes an http.Client for real servers from one struct: a total
// timeout, retries, a limit and a breaker for each host, and a timeout for each
// attempt, in a safe order.
//
//	c, err := standard.New(standard.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	resp, err := c.Get("https://api.example.com/orders")
//
// A request may take 30 seconds in all, and so may each hop of a redirect, which
// http.Client follows outside of its Transport (HTTP.Timeout is for all hops). It is sent
// up to four times, if it may be repeated. Each attempt waits for the limit, also if a
// response of the host had a Retry-After, is rejected while the host is failing, and has
// 10 seconds until the headers of its response. Each part can be changed in the [Config],
// while it runs (c.Retry.SetConfig), and for a single request:
//
//	ctx = c.Retry.Override(ctx, func(r *retry.Config) { r.MaxAttempts = 1 })
//
// When not to use it: if fewer parts are enough. Package client combines any of the
// plugins, and imports none of the others.
//
// # Guarantees
//
// The guarantees of package client and of the plugins apply. A Client may be used by any
// number of goroutines. [New] refuses settings that work against each other, with the
// field, its value and the accepted values.
//
// # Failure mode
//
// A rejection without a call matches core.ErrRejected and has a wait (core.RetryAfter).
// The last response of a server is returned unchanged, after any number of attempts.
package standard
