// Package cooldown stops calls to a server that has asked for a pause.
//
// If a server asks one call to wait, as by a Retry-After, it rejects the other calls too,
// and many servers punish clients that continue. A [Cooldown] applies one response to all
// calls: [Cooldown.Hold] holds back every call with that key, including admitted calls
// that are not yet sent. After the hold a single call is admitted, the probe. Each success
// then makes room for one more, so that the number doubles: 1, 2, 4, up to 64, where the
// ramp ends.
//
//	gate, err := cooldown.New(cooldown.Config{Name: "vendor"})
//	if err != nil {
//		return err
//	}
//	permit, err := gate.Acquire(ctx, account) // waits, or fails at once when that takes too long
//	if err != nil {
//		return err
//	}
//	outcome := core.Ignored
//	defer func() { permit.Done(outcome) }()
//	wait, err := call(ctx) // as the server asks
//	switch {
//	case wait > 0:
//		permit.Hold(wait)
//	case err == nil:
//		outcome = core.Success
//	}
//
// If time passes between Acquire and the call, [Permit.Ready] reports right before the
// call whether it may still be made.
//
// The key is the scope of the response: a host, a vendor, an account. Too wide a key holds
// back unrelated calls; with too narrow a key the server punishes them.
//
// Use it for servers that say how long to wait. It limits no rate, and it does not detect
// failures: for these there are core/ratelimit and core/breaker. For HTTP it is part of
// the client of plugins/ratelimit.
//
// # Several processes
//
// With Config.Store, as a store of stores/redisstore, the cooldowns of one name share their
// holds: each process learns of a hold by a message, and keeps it by its own clock. Of two
// holds the one that ends later counts, also between processes. After a hold each process
// sends a probe of its own, and its ramp is its own; if the server asks one of these calls to
// wait, all processes are held again. A success is not shared, and a [Cooldown.Release] is.
//
// Acquire waits for the store only while it does not know the holds, as at the first use,
// and for a short time, which the store limits. Otherwise no call waits for the store: if
// that fails, holds are those of this process, and are shared when the store is available
// again. Package logs reports it.
//
// # Guarantees
//
//   - A Cooldown is safe for concurrent use. It starts no goroutine, although a Store can: a
//     waiter sleeps in its own, and wakes the next one when it leaves, for any reason.
//   - Only [Cooldown.Release] shortens a hold: of two holds the one that ends later counts.
//   - While a key is held, no call is admitted. After the hold, at most as many calls run
//     as have slots, apart from those that take longer than ProbeTimeout.
//   - The result of a call that was admitted before a hold decides nothing after that
//     hold. While the hold lasts, a [Permit.Hold] of such a call can extend it. Any
//     call that was admitted after it can begin the next hold, also after the end of the ramp, after
//     ProbeTimeout, and after a Release.
//   - Without a held key, Acquire costs an atomic load, or a little more with a Store. Neither a rejection nor an
//     admission without a wait allocates.
//   - Memory is bounded by MaxKeys and MaxQueue. A key is forgotten when a call succeeded
//     and none is left, or after an idle time as long as its hold, unless Config.Keep is set.
//
// # Failure mode
//
// At MaxKeys the hold that ends first is evicted, which [Stats] count, and its calls are
// admitted. A Permit without a Done occupies its slot for ProbeTimeout.
package cooldown
