// Package retry sends HTTP requests again when they fail: it is core/retry for
// an [http.RoundTripper].
//
//	retries, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	httpClient := &http.Client{Transport: client.New(nil, retries)}
//
//	// without retries, for this request and this plugin:
//	ctx = retries.Override(ctx, func(c *retry.Config) { c.Disabled = true })
//
// A request is repeated if the failure may pass by itself (see [DefaultCheckRetry]) and
// sending it twice does no harm: by its method, by an Idempotency-Key, because nothing
// of it was sent, or because the Config allows it. A POST without a key that may have
// arrived is not repeated; its error then matches [ErrMaybeProcessed].
//
// Do not use it in several layers at once, as in a client and the service that it
// calls: three attempts inside three attempts are nine. If a request must survive a
// restart, use a job queue instead.
//
// In a [core.Registry] the plugin has the kind "retry": core.SetConfig takes its
// [Config], and [core.Lookup] also finds its *retry.Policy of core/retry, for metrics.
// Change the Config of the plugin, not of the policy, which has no effect on requests.
//
// # Guarantees
//
//   - The response of the last attempt is returned, with its body and no error,
//     whatever its status. If that attempt got none, its error is returned unchanged.
//   - What the response says about waiting ([client.RetryAfter]) is the shortest wait. If it is longer than
//     MaxRetryAfter, or would reach MaxElapsed or the deadline of the request,
//     the response is returned at once.
//   - The caller's request is never changed, its body is closed exactly once, and
//     no body is kept in memory, unless MaxBuffer is set. Each repetition sends the
//     trailers that the caller sets while the body is read.
//   - A wait counts from the moment the response arrived. A discarded response is
//     drained within limits and closed during the wait, so that one
//     connection is enough. Draining does not make the wait longer; without a wait it
//     takes at most half of the time until MaxElapsed or the deadline.
//   - Once the request's context is done, or its Cancel channel is closed, nothing is
//     sent, also if that happens in ModifyRequest; a wait ends at once.
//   - The request of the response (resp.Request) is the caller's own, as with net/http;
//     after ModifyRequest it is the modified copy, with the caller's context.
//   - If no attempt is left, nothing is suppressed: with MaxAttempts 1 neither the hook
//     Suppressed nor its counters nor [ErrMaybeProcessed] appear.
//   - An attempt that failed by the caller's own fault is not repeated if it would
//     end in the same way: see [client.Explain].
//   - A rejection by an inner plugin, as an open breaker's, is not repeated. If it ends
//     the retries after an attempt was made, the error is an [*Error]: errors.Is and
//     errors.As find both errors, but it does not match core.ErrRejected, since a request was sent. Nor does a response that
//     [client.Reject] made of it have its mark then.
//   - A plugin may be used by any number of goroutines. It starts none. A GET
//     that succeeds at once costs no allocation.
//
// # Failure mode
//
// Too many attempts multiply the load on a server that is down: keep them few, give
// all plugins for that server one [Budget], and put a breaker inside. [Plugin.Stats] and
// [Hooks] report the retries. If an attempt hangs, so does the call: limit the time of
// attempts with an inner timeout plugin.
package retry
