// Package retry runs an operation again when it fails.
//
//	p, err := retry.New(retry.Config{MaxAttempts: 4})
//	if err != nil {
//		return err
//	}
//	user, err := retry.Do(ctx, p, func(ctx context.Context) (User, error) {
//		return load(ctx, id)
//	})
//
// Use it if a failure is likely to pass by itself and the operation may run twice. Do not
// use it if the caller cannot wait, nor in several layers at once: three attempts
// inside three attempts are nine. If many callers share a dependency, give their
// policies a [Budget]: while it is down, they retry a part of their calls instead of all
// of them three times. For HTTP requests there is plugins/retry, which decides which
// requests may be sent again.
//
// # Guarantees
//
//   - A [Policy] is passive: it starts no goroutine, and waits in the caller's.
//   - It holds no state but its Config and counters, and any number of calls may
//     use it at once. A Budget holds three numbers, however many policies share it.
//   - A call whose first attempt succeeds allocates nothing.
//   - Once the caller's context is done nothing is repeated, a wait ends at once,
//     and a wait that would reach the context's deadline is not begun.
//   - A rejection ([core.ErrRejected]) is not repeated unless RetryRejected is set, and
//     an error with a wait ([core.RetryAfter]) is not repeated before its end. Jitter
//     only adds to such a wait.
//   - The error and the result of the last attempt are returned, never hidden.
//
// # Failure mode
//
// A wrong predicate repeats operations that cannot succeed, and their callers wait in
// vain: see [Policy.Stats].
//
// The operation gets the number of its attempt, and the error of the one before, with
// [FromContext]. [Policy.SetConfig] replaces the Config of a policy that is in use. [Do]
// is a short loop over a [Call], for adapters that decide themselves which failures to
// retry.
package retry
