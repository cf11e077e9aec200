// Package standard makes an http.Client that survives real servers, of one struct: a
// total timeout, retries, a limit and a breaker for each host, and a timeout for each
// attempt, in the order that is safe.
//
//	c, err := standard.New(standard.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	resp, err := c.Get("https://api.example.com/orders")
//
// What happens to a request, from the outside in: it may take 30 seconds in all, and so
// may each hop of a redirect, which http.Client follows outside of its Transport
// (HTTP.Timeout is for all of them); it is made up to four times, if it may be repeated;
// each time it waits for its turn, also when the host has told anybody to wait; it is
// rejected while the host is failing; and it has 10 seconds until the headers of its
// response are there. Each part can be changed in the [Config], while it runs (c.Retry.SetConfig), and for a single request:
//
//	ctx = c.Retry.Override(ctx, func(r *retry.Config) { r.MaxAttempts = 1 })
//
// When not to use it: to have less than that. Package client puts together any of the
// plugins, and imports none that is not used.
//
// # Guarantees
//
// Those of package client and of the plugins. A Client may be used by any number of
// goroutines. Settings that work against each other are refused by [New], with the
// field, its value and what would do.
//
// # Failure mode
//
// What is rejected without a call matches core.ErrRejected and tells when to come back.
// What a server answered comes back as it is, however often it was tried.
package standard
