// Package bulkhead bounds how many calls are in flight at once, by key, so that one slow upstream does not take all goroutines,
// connections and memory of a service.
//
//	b, err := bulkhead.New(bulkhead.Config{Name: "reports", Limit: 8})
//	if err != nil {
//		return err
//	}
//	permit, err := b.Acquire(ctx, tenant, 1)
//	if err != nil {
//		return err // such as a *bulkhead.FullError
//	}
//	defer permit.Done(core.Ignored)
//
// Do not use it to limit how many calls begin in a time: that is core/ratelimit. Its permits are those of one process.
//
// With Config.Backoff the limit follows the upstream. A [core.Failure] multiplies the limit of its key by Backoff, and successes
// raise it again, by 1 at a time. Use that for an upstream that punishes too many calls: end a call that it throttled with
// core.Failure, and others with core.Success or core.Ignored. One overload lowers the limit once: the result of a call that was
// admitted before the last decrease is not counted.
//
// # Guarantees
//
// At no moment do the calls of a key hold more permits than its limit, unless the limit was lowered meanwhile. A call that is heavier
// than a lowered limit runs alone. Waiters of a key are admitted in the order of their calls, unless NewestFirst is set, and the first
// one blocks the others, so light calls do not starve a heavy one. A call whose permits are free takes no lock, reads no clock and
// does not allocate. Memory is bounded by MaxKeys and MaxQueue. No goroutine is started: a waiter sleeps in its own.
//
// # Failure mode
//
// A permit without a Done is lost. With calls of MaxKeys keys in flight, a call of a further key is rejected. Only 64 keys are searched for an
// idle one to forget. A key that was forgotten begins with the Limit of the Config again.
package bulkhead
