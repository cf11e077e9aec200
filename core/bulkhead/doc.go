// Package bulkhead bounds the calls in flight.
//
// A slow upstream lets calls pile up until they hold all memory and connections of their
// process. A [Bulkhead] admits a call if its permits are free, otherwise the call waits for
// a time, or is rejected:
//
//	vendor, err := bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 8})
//	if err != nil {
//		return err
//	}
//	permit, err := vendor.Acquire(ctx, account) // waits for at most MaxWait
//	if err != nil {
//		return err
//	}
//	outcome := core.Ignored
//	defer func() { permit.Done(outcome) }() // returns the permit, also after a panic
//	if err := call(ctx); err == nil {
//		outcome = core.Success
//	}
//
// Each key has permits of its own: an account, a host, a tenant. The empty key is one
// like others, and the fastest. [Bulkhead.AcquireN] admits a call that counts as several,
// such as a batch. [Do] runs a function with the empty key.
//
// The limit is fixed, or with Config.Backoff it follows the upstream: a [core.Failure]
// multiplies the limit of its key by Backoff, and successes raise it again by 1 at a time.
// Use that for an upstream that punishes too many calls: end a call that it throttled with
// core.Failure, and others with core.Success or core.Ignored.
//
// # Several processes
//
// A vendor with a limit of 10 calls at a time does not know how many processes call it.
// With a Store, such as that of stores/redisstore, the bulkheads of one name in all
// processes hold at most Limit permits of a key together:
//
//	vendor, err := bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 10, Store: store})
//
// A call takes its permits in this process first, and then in the Store. They are leased,
// and the Store renews the lease until Done: a process that is killed returns its permits
// when their leases end. A call that could not renew its lease, for example after a pause
// of the process, has lost its permits while it is in flight. [Permit.Context] then ends
// with the cause [ErrLost]; pass it to the call:
//
//	permit, err := vendor.Acquire(ctx, account)
//	...
//	err = call(permit.Context())
//
// The permits are in the Store only, so a bulkhead can be made anew for each call. If the
// Store fails, Config.OnStoreError decides: by default the call is rejected.
//
// A bulkhead does not limit a rate: 8 calls of 10 ms are 800 a second. For rates there is
// core/ratelimit.
//
// # Guarantees
//
//   - A Bulkhead is safe for concurrent use. It starts no goroutine: a waiter sleeps in
//     its own.
//   - At no moment do the calls of a key hold more permits than its limit. The exceptions
//     are a limit that was lowered while calls were in flight, and a call heavier than a
//     limit that Backoff has lowered, which runs alone. With a Store this holds for all
//     processes together, apart from calls that have lost their permits, and from data that
//     the Store has lost.
//   - Waiters of a key are admitted in the order of their arrival, unless NewestFirst is
//     set. The first one blocks the others, so light calls do not starve a heavy one. The
//     same holds in a Store, over all processes.
//   - A call whose permits are free reads no clock, takes no lock and does not allocate,
//     nor does a rejection of weight 1 where no call waits (MaxQueue below 0). A key that is not kept yet costs allocations.
//   - One overload lowers a limit once: the result of a call that was admitted before the
//     last decrease is not counted.
//   - Memory is bounded by MaxKeys and MaxQueue. Keys that are idle for more than a minute
//     are forgotten when other keys arrive or [Bulkhead.Stats] is called, and at MaxKeys
//     earlier. A forgotten key begins with the Limit of the Config again.
//
// # Failure mode
//
// A Permit without a Done occupies its place forever. At MaxKeys, with calls of all keys in
// flight, a call of another key is rejected. At MaxKeys an idle key might not be found among
// the 64 that are looked at; the call is then rejected too.
//
// While the Store is unavailable, calls are rejected with [ErrStore], and those in flight
// lose their permits before their leases end. With [Local] each process has the Limit for
// itself, until the Store decides again.
package bulkhead
