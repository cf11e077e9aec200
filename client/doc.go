// Package client puts resilience plugins around an [http.RoundTripper], in a safe order
// whatever the order of the arguments.
//
// A plugin is one object with a name, a [Phase] and a method Transport that
// wraps a RoundTripper. It works alone. [New] is for two or more of them:
//
//	policy, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	retries := retry.NewClient(policy, retry.ClientOptions{})
//	breakers := breaker.NewClient(nil, breaker.ClientOptions{})
//	httpClient := &http.Client{Transport: client.New(nil, breakers, retries)}
//
// Above, every retry passes the breaker, because Attempt is inside of
// Attempts. [Transport.Check] reports where an override of a phase turned two
// plugins around.
//
// The package holds no mechanism. Its helpers keep the contract of RoundTripper in
// plugins, your own included: [Replay] gives each attempt a body, [Discard] drains a
// response so that its connection can be used again, [OnBodyEnd] runs a function at the
// end of a body, [Classify] separates success from failure and [Explain] the caller's
// fault from the server's, [Idempotent] and [NotSent] report whether a request may be
// repeated, [RetryAfter] reads the header and [Reject] answers without a call.
//
// When not to use it: an http.Client with one plugin needs only
// Transport: retries.Transport(base). Headers and authentication belong into
// RoundTrippers of their own, given as the base.
//
// # Guarantees
//
// A Transport may be used by any number of goroutines. The caller's request is never
// changed. The plugins of this module close its body exactly once; net/http may do so
// after RoundTrip has returned, while an upload is still being written. No body is kept
// in memory unless a limit for that is set. The package starts no goroutine; [Discard]
// uses a timer that it stops.
//
// # Failure mode
//
// If a plugin is nil, as a constructor returns it together with an error, or is given
// twice, every RoundTrip fails with a [core.ConfigError]. Nothing is sent without the
// protection of all plugins, and nothing panics.
package client
