// Package timeout limits the time of an operation.
//
//	t, err := timeout.New(timeout.Config{Name: "report", Limit: 5 * time.Second})
//	if err != nil {
//		return err
//	}
//	report, err := timeout.Do(ctx, t, func(ctx context.Context) (Report, error) {
//		return build(ctx)
//	})
//
// The operation gets a context that ends at the limit, and Do waits for the end of the
// operation: nothing is left running. So an operation that ignores its context is not cut
// short. For a single call, context.WithTimeout does the same without a name and
// counters. For HTTP there is plugins/timeout, which can answer a request while its
// handler still runs.
// [Timeout.SetConfig] replaces the Config of a timeout that is in use.
//
// # Guarantees
//
//   - An error after the limit is an [*Error]: it matches [ErrTimeout],
//     [context.DeadlineExceeded] and the operation's error, and its Timeout method
//     returns true. [context.Cause] of the operation's context is an *Error too.
//   - A result without an error is a success, also after the limit.
//   - The end of the caller's own context, or its nearer deadline, is never reported as
//     a timeout of this limit.
//   - Any number of calls may use a [Timeout] at once. It starts no goroutine.
package timeout
