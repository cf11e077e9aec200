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
// Use it if a failure is likely to pass by itself, and if the operation can run twice. Do not use it in several layers: three
// attempts inside of three attempts are nine. If many callers use one service, give their policies one [Budget]. For HTTP
// there is plugins/retry.
//
// # Guarantees
//
// A policy starts no goroutine. Once the caller's context is done nothing is repeated, and a wait that would reach its deadline
// is not begun. A rejection ([core.ErrRejected]) is not repeated unless RetryRejected is set. An error that is [core.Permanent] never is. A wait that
// an error asks for ([core.RetryAfter]) is the shortest wait, and jitter comes on top of it. The result and the error of the last
// attempt are never hidden. A call whose first attempt succeeds allocates nothing.
package retry
