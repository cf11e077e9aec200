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
// Do not use it to limit how many calls begin in a period: that is core/ratelimit. The permits of a bulkhead are per process.
//
// With Config.Backoff the limit adapts to the upstream. A [core.Failure] multiplies the limit of its key by Backoff, and successes raise it
// again, by 1 at a time. Use that for an upstream that throttles too many calls at once: end a throttled call with core.Failure, and others
// with core.Success or core.Ignored. One overload lowers the limit only once: the results of calls that were admitted before the last
// decrease are not counted.
//
// # Guarantees
//
// The calls of a key never hold more permits than its limit, unless the limit was lowered meanwhile. A call that is heavier than a lowered
// limit runs alone. Waiters of a key are admitted in the order of their calls, unless NewestFirst is set. The first waiter blocks the
// others, so light calls do not starve a heavy one. A call whose permits are free takes no lock, reads no clock and does not allocate.
// MaxKeys and MaxQueue bound the memory. No goroutine is started: a waiter blocks the goroutine of its caller.
//
// # Failure mode
//
// A permit without a Done is lost. While MaxKeys keys have calls in flight, a call of another key is rejected. Only 64 keys are searched
// for an idle one to evict. A key that returns after its eviction begins with the Limit of the Config.
package bulkhead
