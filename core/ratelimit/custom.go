package ratelimit

// A Custom is an algorithm of your own: see Limit.Custom. What it keeps of a key is
// a few whole numbers, of which a store knows only how many there are; nil is a key
// that is new. They may have been written under another Limit with the same Custom.
//
// Times are in nanoseconds, on the clock of the store. Costs are at least 1 and at
// most the capacity of the limit, and so many are never more than MaxPermits. Who
// reads or changes the state of a key is alone with it; the methods are called by
// many goroutines for many keys. They must not keep state, nor do anything but
// compute: an order of calls is not promised.
type Custom interface {
	// Earliest returns the first time, now or later, at which cost permits can be
	// taken if nobody else takes any before. It changes nothing. What it returned
	// stays right until somebody takes.
	Earliest(l Limit, state []int64, now, cost int64) int64
	// Charge takes cost permits at a time that Earliest returned, or at a later one,
	// and returns the state after it. It may write to state, and return it grown, as
	// append does. What lies ahead of now is a reservation: it can still be refunded.
	Charge(l Limit, state []int64, now, at, cost int64) []int64
	// Refund gives back up to cost permits of those that were charged at a time, as
	// far as time has not given them back by now. It may write to state, as Charge
	// may.
	Refund(l Limit, state []int64, now, at, cost int64) []int64
	// Available is how many permits can be taken now. It changes nothing.
	Available(l Limit, state []int64, now int64) int64
	// FullAt is the time at which the key will be as good as new; now or before if
	// it is. It changes nothing.
	FullAt(l Limit, state []int64, now int64) int64
}
