// Package retry sends HTTP requests again when they fail: it is core/retry for an http.RoundTripper.
//
//	policy, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	retries := retry.NewClient(policy, retry.ClientOptions{})
//	httpClient := &http.Client{Transport: client.New(nil, retries)}
//
//	ctx = policy.Override(ctx, func(c *retry.Config) { c.MaxAttempts = 1 }) // this request only
//
// A request is sent again if the failure is temporary ([CheckRetry]), and sending it twice does no harm: because of its method, because of
// an Idempotency-Key, or because nothing of it was sent. Any other POST is sent once, and its response or error is returned as if there
// were no plugin. If client.NotSent(err) is true, no server has processed it.
//
// # Guarantees
//
// The last response is returned unchanged, whatever its status. If the last attempt has no response, the error is that of the transport;
// after more than one attempt it is wrapped in an [*Error]. The wait that a response asks for (client.RetryAfter) is the shortest wait. A
// discarded response is drained within limits and closed. The caller's request is never changed, and its body is closed once. A rejection
// by an inner plugin is not retried. A GET that succeeds at once costs no allocation.
//
// A request whose body has failed, or was still being sent when the time was up, is not sent again: that is not the server's fault. A
// request with trailers is sent once. A response whose body breaks off later is not retried: put core/retry around the whole exchange for
// that.
package retry
