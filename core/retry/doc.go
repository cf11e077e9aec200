// Package retry runs an operation again when it fails.
//
//	policy, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	user, err := retry.Do(ctx, policy, func(ctx context.Context) (User, error) {
//		return load(ctx, id)
//	})
//
// Use it if failures are likely to be temporary, and the operation can run twice. Do not use it in several layers: three attempts inside of
// three attempts are nine. If many callers use one service, give their policies one [Budget]. For HTTP there is plugins/retry.
//
// # Guarantees
//
// A policy starts no goroutine. Once the caller's context is done, nothing is repeated. If a wait would reach its deadline, there is no
// retry. A rejection ([core.ErrRejected]) is not repeated unless RetryRejected is set; a [core.Permanent] error is never repeated. A wait
// that an error asks for ([core.RetryAfter]) is the shortest wait; jitter is added to it. The result and the error of the last attempt are
// never hidden. A call whose first attempt succeeds allocates nothing.
package retry
