package limits

import (
	"math"
	"time"
)

// OpKind is what an [Op] does.
type OpKind uint8

// The operations.
const (
	// Take takes Cost permits now, or none.
	Take OpKind = iota
	// TakeAtMost takes as many permits as there are, up to Cost.
	TakeAtMost
	// Reserve takes Cost permits as soon as they are available, in the order of the calls,
	// if that is within MaxWait; otherwise none.
	Reserve
	// Refund gives back the Cost permits of the take that Receipt names, if their window is
	// not over.
	Refund
	// Reset forgets the key.
	Reset
	// Check decides as Take would, and takes nothing.
	Check
	// Drain takes all there is.
	Drain
)

// An Op is one operation on a key.
type Op struct {
	Kind    OpKind
	Cost    int64         // permits, 0 or more; a Take of 0 only looks
	MaxWait time.Duration // Reserve: how long the permits may take to come
	Receipt Receipt       // Refund: that of the Result of the take
}

// Never is the RetryAfter of a cost that does not fit into the limit at all, so that
// waiting does not help.
const Never time.Duration = -1

// A Result is ratelimit.Result, which has the docs: one can be converted to the other.
type Result struct {
	Allowed              bool
	Permits              int64
	Limit, Remaining     int64
	Which                int
	RetryAfter           time.Duration
	NextAfter, FullAfter time.Duration
	Wait                 time.Duration
	Receipt              Receipt
}

// A Receipt names a take to a refund. Its values belong to the store.
type Receipt struct {
	Key string // of the take; the limiter sets it
	// At is the time of the operation on the clock of the store, also without a take; 0 if it is
	// unknown. It is negative if the operation was decided without the store.
	At    int64
	Plan  *Plan             // the limits that decided, also without a take
	Parts [MaxLimits]uint64 // and how they were charged
	More  *More             // of joined limits in Redis, and of a reservation in memory
}

// kept is the part of a Receipt of which a refund gives nothing back.
const kept = math.MaxUint64

// More is the part of a Receipt for less common cases.
type More struct {
	// Stands is how the key stands under each of several joined limits, also without a take: their Remaining and
	// FullAfter. A store in memory leaves it nil.
	Stands []Result

	before, after [MaxLimits]State // a reservation
}
