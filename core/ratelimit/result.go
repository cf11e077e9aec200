package ratelimit

import "time"

// Never is the RetryAfter of a cost that does not fit into the limit at all, so
// that waiting does not help.
const Never time.Duration = -1

// A Result is what an operation on a key decided, and how the key stands after
// it. All waits are from the moment of the decision, rounded up to the
// nanosecond.
type Result struct {
	// Allowed tells whether the permits may be used, after Wait. It is true for a
	// cost of 0.
	Allowed bool
	// Granted is how many permits were taken: the cost, or 0 when refused, or
	// what there was for a take of at most so many.
	Granted int64
	// Limit is the capacity of the limit that decided, or 0 if the store failed and
	// the call passes all the same.
	Limit int64
	// Remaining is how many permits can be taken right now: 0 or more.
	Remaining int64
	// Wait is how long to wait before the permits may be used. It is 0 but for a
	// reservation.
	Wait time.Duration
	// RetryAfter is, for a refusal, the earliest time at which the same cost can
	// be allowed, if nobody else takes until then, or [Never]. Else it is 0.
	RetryAfter time.Duration
	// NextAfter is when there will be one permit more than Remaining. It is 0 when
	// the key is full.
	NextAfter time.Duration
	// FullAfter is when the key will be full, if nobody takes until then.
	FullAfter time.Duration
	// Plan is the limit that decided, by its number in the table.
	Plan PlanID
	// Which is, of several limits joined by [Limit.And], the place of the one that
	// Limit, Remaining, NextAfter and FullAfter are about: of those that refused,
	// the one to be waited for longest; if all allowed, the one with least left.
	Which int
	// Receipt names the take to a refund.
	Receipt Receipt
}
