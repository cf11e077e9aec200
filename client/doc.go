// Package client puts resilience plugins around an [http.RoundTripper], in an
// order that is safe whatever the order they are given in.
//
// A plugin is one object with a name, a [Phase] and a method Transport that
// wraps a RoundTripper. It works alone. [New] is for two or more of them:
//
//	retries, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	breakers, err := breaker.NewClient(breaker.ClientConfig{})
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, breakers, retries)}
//
// Above, every retry passes the breaker, because Attempt is inside of
// Attempts. [Transport.Check] reports where an override of a phase turned two
// plugins around.
//
// The package holds no mechanism. It has what a plugin of your own needs as
// well, to keep the contract of RoundTripper: [Replay] gives each attempt a
// body, [Discard] throws a response away without wasting its connection,
// [OnBodyEnd] runs a function when a body is done with, [Classify] tells
// success from failure and [Explain] whose fault an error is, [Idempotent] and
// [NotSent] tell what may be repeated,
// [RetryAfter] reads the header and [Reject] answers without a call.
//
// When not to use it: a plain http.Client with one plugin needs none of it,
// write Transport: retries.Transport(base). Nor is it a place for headers or
// authentication; those are RoundTrippers of their own, given as the base.
//
// # Guarantees
//
// A Transport may be used by any number of goroutines. The request that it is
// given is never changed. Its body is closed exactly once as far as the plugins
// of this module are concerned; net/http may do so after RoundTrip has returned,
// while an upload is still being written. No body is held in memory unless
// somebody asks for it by a limit. The package starts no goroutine; [Discard]
// uses a timer that it stops.
//
// # Failure mode
//
// A plugin that is nil, which is what a constructor returns with the error that
// nobody looked at, or one that is given twice, makes every RoundTrip fail with
// a [core.ConfigError]. Nothing is sent without the protection that was asked
// for, and nothing panics.
package client
