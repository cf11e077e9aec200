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
// The operation gets a context that ends at the limit, and its end is waited for:
// nothing is left running behind the caller's back. So the limit holds as far as
// the operation minds its context. One that does not is not cut short, and no
// goroutine is spent on pretending that it is. For a single call,
// context.WithTimeout does the same without a name, counters and hooks. For HTTP
// there is plugins/timeout, which can answer for a handler that does not end.
// [Timeout.SetConfig] replaces the Config of a timeout that is in use.
//
// # Guarantees
//
//   - An error that comes after the limit is an [*Error]: it matches [ErrTimeout],
//     [context.DeadlineExceeded] and what the operation returned, and its Timeout
//     method is true. [context.Cause] of the operation's context is an *Error too.
//   - A result that comes after the limit without an error is a success.
//   - The end of the caller's own context, or a deadline of it that is nearer, is
//     the caller's and never reported as a timeout of this limit.
//   - Any number of calls may use a [Timeout] at once. It starts no goroutine.
package timeout
