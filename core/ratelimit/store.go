package ratelimit

import (
	"context"
	"time"
)

// A Store holds the state of keys: in the memory of the process (see
// [NewMemory]), or where many processes share it. What decides is the store: one
// operation on one key is one atomic step.
type Store interface {
	// Open returns the table of that name. Opening a name again gives the same
	// state, where it is shared, or is an error.
	Open(name string) (Table, error)
	// Close releases what the store holds. Its tables fail from then on.
	Close() error
}

// A Table holds the keys of one limiter. It is used by many goroutines at once.
type Table interface {
	// Plan makes a limit known and returns the number by which Apply takes it.
	// The same limit has the same number. The limit is valid.
	Plan(limit Limit) (PlanID, error)
	// Apply does one operation on one key. An error means that the store could
	// not decide; it is not a refusal. The key may be a buffer that is used again
	// after the call: who keeps it, copies it.
	Apply(ctx context.Context, key string, plan PlanID, op Op) (Result, error)
}

// A LocalTable is a Table that can decide without its store, for [Local].
type LocalTable interface {
	Table
	// Local returns a table that decides alone, under the same plans, with the share
	// of this process. It is asked once, when a limiter is made with Local or
	// SetConfig changes it to that. A Refund is for the table itself, which knows its
	// own receipts from those of the other.
	Local() Table
}

// A PlanID is the number of a limit in a table, from 1.
type PlanID uint16

// A Receipt names a take to a refund. Its values belong to the store.
type Receipt struct {
	At    int64             // when it was
	Plans [MaxLimits]PlanID // the limits that were charged
	Parts [MaxLimits]uint64 // and how

	before *[MaxLimits]uint64 // of a reservation in memory: what there was, in the same form
}

// OpKind is what an [Op] does.
type OpKind uint8

const (
	// Take takes Cost permits now, or none.
	Take OpKind = iota
	// TakeAtMost takes as many permits as there are, up to Cost.
	TakeAtMost
	// Reserve takes Cost permits as soon as they are to be had, in the order of
	// the calls, if that is within MaxWait; else none.
	Reserve
	// Refund gives back the Cost permits of the take that Receipt names, if their
	// window is not over. The plan of the call is the one that the Result is about; the
	// Receipt has those that were charged.
	Refund
	// Reset forgets the key.
	Reset
	// Check decides as Take would, and takes nothing.
	Check
	// Drain takes all there is, also before those who wait.
	Drain
)

// An Op is one operation on a key.
type Op struct {
	Kind    OpKind
	Cost    int64         // permits, 0 or more; a Take of 0 only looks
	MaxWait time.Duration // Reserve: how long the permits may take to come
	Receipt Receipt       // Refund: that of the Result of the take
	Past    []Past        // limits that were in force before the plan, the oldest first

	queued bool // a Take that was waited for
}

// A Past is a limit that was replaced while keys were held to it. What a key owes
// under it goes over to the limit that came after; and what counts in windows, as
// FixedWindow, SlidingCounter and the segments of SlidingWindow do, is held to it to
// the end of the window that was on.
type Past struct {
	Plan  PlanID
	Until time.Time // with a monotonic reading, as time.Now returns it
}
