// Package breaker stops sending requests to a host, or to a handler, that keeps
// failing. It binds core/breaker to net/http; what it exports of that package is
// there so that one import is enough.
//
//	breakers, err := breaker.NewClient(breaker.ClientConfig{}) // one breaker per host
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, breakers)}
//	resp, err := httpClient.Get("https://api.example.com/users")
//	if errors.Is(err, breaker.ErrOpen) {
//		wait, _ := core.RetryAfter(err)
//		return fmt.Errorf("try again in %v", wait)
//	}
//
// A [Client] judges each exchange when its headers are there: 5xx and network
// errors are failures, a request that its caller canceled is neither failure nor
// success. The same holds for the own faults of the caller ([client.Explain]): a
// request body that cannot be read, or so slowly that a time limit strikes meanwhile; a
// request that net/http refuses to send. So the uploads that a reverse proxy passes on
// do not open the breaker of its origin. An outer limit, as a total timeout or that of a
// handler, is a failure only if the attempt had at least half of its own limit;
// [client.Classify] has the rule. It belongs inside of retries, which [client.New] sees to: each attempt
// is counted, and none is made to a host that is cut off. With JudgeBody, it waits with
// a success until the body has ended, and a read that fails is a failure.
//
// With SlowCall, headers that take long count against a host as failures do. With a
// Trip, a single response is enough: [TripOnRetryAfter] takes every Retry-After at its
// word. [Client.Override] and [Server.Override] change what one request meets: no
// breaker, that of another key, or one more thing that is a failure. SetConfig of both replaces the settings
// while they are in use, and keeps the states.
//
// A [Server] stands in front of a handler and answers 503 with Retry-After while
// the handler keeps failing, which gives what is behind it time to recover. It too
// judges at the header, so a stream that goes on for hours holds no half-open slot.
//
// Use neither against too many callers: use a limiter. If the server answers with 5xx for
// something that the caller is at fault for, return Ignored in Classify.
//
// # Guarantees
//
//   - Both may be used by any number of goroutines, and start none.
//   - A request that is rejected is not sent. A body is closed exactly once, also
//     by a transport that panics; so one that is neither in memory nor guarded by
//     a plugin further out is sent in a wrapper, where sendfile does not reach it.
//   - A transport or handler that panics gives its half-open slot back, and the
//     panic goes on.
//   - A response is never changed, but for the body with JudgeBody, and no body is read
//     or held in memory.
//   - A request through a closed breaker costs no allocation of the Client's own, unless
//     its body needs a wrapper, or the default Key has to build the host: for an http URL
//     without a port, or a host with capital letters, that is one small string.
//   - The number of breakers is bounded, and one that is open is not dropped.
//
// When it fails: requests to a host that is up are rejected until its time to be
// open is over. Hooks, Stats and [Client.For] show why; [Client.Override] gets a
// single request past it, and Reset of the breaker that For(host) returns ends it.
package breaker
