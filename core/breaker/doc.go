// Package breaker stops calls to something that keeps failing.
//
//	b, err := breaker.New(breaker.Config{Name: "billing"})
//	if err != nil {
//		return err
//	}
//	invoice, err := breaker.Do(ctx, b, func(ctx context.Context) (Invoice, error) {
//		return load(ctx, id)
//	})
//	if errors.Is(err, breaker.ErrOpen) {
//		return cached(id)
//	}
//
// A closed breaker admits calls, and counts how they end. If too many fail, or are slow, it opens: calls are rejected at once. After a
// while it is half-open, and admits a few trials, whose results close it or open it again. If a call is not one function, use
// [Breaker.Acquire] before it and [Permit.Done] after it. A [Group] has a breaker for each key, such as a host.
//
// If calls can fail because of their caller, set a Classify that ignores those failures. A breaker limits neither the rate nor the
// concurrency of calls. For HTTP there is plugins/breaker.
//
// # Guarantees
//
// A result counts only in the state in which its call was admitted. Neither an admitted call nor a rejection allocates. While closed, a
// breaker reads no clock unless there is a SlowCall or a WindowTime. It starts no goroutine: when the time of a state is over, the next
// call changes the state.
package breaker
