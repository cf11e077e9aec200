// Package cooldown leaves alone what has asked to be left alone.
//
// When one call is told to wait, as by a Retry-After, the others to the same place
// would be told so too, and many a server punishes those who keep asking. A
// [Cooldown] lets one answer speak for all: [Cooldown.Hold] holds back every call with
// that key, those too that were admitted and are not yet sent. When the time is over
// a single call goes out, the probe. Each that succeeds then makes room for one more,
// so that twice as many run each time: 1, 2, 4, up to 64, where it is over.
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
//	told, err := call(ctx) // how long to wait
//	switch {
//	case told > 0:
//		permit.Hold(told)
//	case err == nil:
//		outcome = core.Success
//	}
//
// Where something takes time between Acquire and the call, [Permit.Ready] tells right
// before the call whether it may still be made.
//
// The key is what the answer is about: a host, a vendor, an account. Too wide a key
// holds back those who have done nothing; too narrow a one lets them be punished.
//
// Use it for what says how long to wait. It limits no rate, and it does not find out
// that something is down: that is for core/ratelimit and core/breaker. For HTTP it is
// in the client of plugins/ratelimit.
//
// # Guarantees
//
//   - A Cooldown may be used by any number of goroutines. It starts none: who waits
//     sleeps in its own goroutine, first come, first served, and hands over when it
//     leaves, whatever the reason.
//   - A hold is never shortened but by [Cooldown.Release]: of two the one counts that
//     ends later.
//   - While a key is held no call is admitted, and after it no more run than have
//     room, but for those that take longer than ProbeTimeout.
//   - The result of a call that was admitted before a hold decides nothing after that
//     hold. While the hold lasts, a [Permit.Hold] of such a call can extend it.
//   - While no key is remembered, Acquire costs an atomic load. Neither admitting a call
//     whose key is free nor a rejection allocates.
//   - Hooks are called with no lock held. A hook may use the Cooldown. One that panics
//     does no harm.
//   - Memory is bounded by MaxKeys and MaxQueue. A key is forgotten when a call
//     succeeded and none is left, or when nobody has come for as long as it was held.
//
// When it fails: at MaxKeys the hold that ends first is forgotten, so that its calls
// go out, and counted in [Stats]. A Permit that never gets its Done holds the others
// back for ProbeTimeout.
package cooldown
