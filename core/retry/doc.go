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
// Use it where a failure is likely to pass by itself and where doing the thing
// twice does no harm. Do not use it where the operation may not be repeated,
// where nobody waits that long, nor in several layers at once: three attempts
// inside three attempts are nine. Where many callers share a dependency, give
// their policies a [Budget]: when it is down, they retry a part of their calls and
// not all of them three times. For HTTP requests there is plugins/retry, which
// knows which of them may be sent again.
//
// # Guarantees
//
//   - A [Policy] is passive: it starts no goroutine, and waits in the caller's.
//   - It holds no state but its Config and counters, and any number of calls may
//     use it at once. A Budget is three numbers more, whoever shares it.
//   - A call whose first attempt succeeds allocates nothing.
//   - Once the caller's context is done nothing is repeated, a wait ends at once,
//     and a wait that would reach the context's deadline is not begun.
//   - A rejection ([core.ErrRejected]) is not repeated unless RetryRejected says
//     so, and an attempt that asks for a wait ([core.RetryAfter]) is not repeated
//     before it is over. Jitter only adds to such a wait.
//   - The error and the result of the last attempt are returned, never hidden.
//
// When it fails: the wrong predicate repeats what cannot succeed, and the caller
// waits for nothing; Hooks and [Policy.Stats] show it. The operation gets the
// number of its attempt, and how the one before ended, with [FromContext]. [Wrap]
// and its like put a policy around a function whose signature stays.
// [Policy.SetConfig] replaces the Config of a policy that is in use.
//
// [Do] is a short loop over a [Call], which is there for adapters of their own
// mind about what is worth another attempt.
package retry
