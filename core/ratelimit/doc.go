// Package ratelimit limits how many permits a key can take in a period: requests of a client, calls of a tenant, bytes
// of an upload.
//
//	limits, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1000)})
//	if err != nil {
//		return err
//	}
//	r, err := limits.Take(ctx, tenant, 1)
//	if err != nil {
//		return err
//	}
//	if !r.Allowed {
//		return tryAgainIn(r.RetryAfter)
//	}
//
// [Limiter.Take] decides at once. [Limiter.Wait] waits for the permits. [Limiter.Reserve] grants them for a later time.
//
// Do not use it to bound how many calls run at once: a permit comes back with time, not when a call ends. That is
// core/bulkhead. For HTTP servers there is plugins/ratelimit, for calls to a vendor outbound/gate.
//
// # Guarantees
//
// An operation on a key is one atomic step, even under several limits. A refusal changes nothing. Waiting exactly
// RetryAfter is enough. A clock that goes backwards or a change of the limit grants no permits.
//
// In memory a key of a bucket or a fixed window takes 16 bytes. The number of keys is bounded; the usage of an evicted
// key is remembered. A take from a window or a bucket allocates nothing.
//
// # When the store fails
//
// A failing store is not a refusal. Depending on Config.OnStoreError, calls pass, return an error that matches
// [ErrStore], or are decided by the share of this process. The store in memory does not fail.
package ratelimit
