package driver

import (
	"context"
	"time"
)

// A Store holds the state of keys: in the memory of the process, or where many processes share
// it. The store decides: one operation on one key is one atomic step.
type Store interface {
	// Open returns the table of that name. Opening a name again gives the same
	// state, where it is shared, or is an error.
	Open(name string) (Table, error)
	// Close releases the store. Its tables fail from then on.
	Close() error
}

// A Table holds the keys of one limiter. It is used by many goroutines at once.
type Table interface {
	// Plan makes limits known that hold together, 1 to 4, and returns the number by
	// which Apply takes them. The same limits have the same number. They are valid.
	Plan(limits []Spec) (ID, error)
	// Apply does one operation on one key. An error means that the store could not decide; it
	// is not a refusal. The key may be a buffer that is used again after the call: a store that
	// keeps it copies it.
	Apply(ctx context.Context, key string, plan ID, op Op) (Result, error)
}

// A LocalTable is a Table that can decide without its store.
type LocalTable interface {
	Table
	// Local returns a table that decides alone, under the same plans, with the share of this
	// process. It is called once, when a limiter is made with the policy Local or SetConfig
	// changes it to that. A Refund is for the table itself, which knows its own receipts from
	// those of the other.
	Local() Table
}

// An OwingTable is a Table in memory that can be charged with usage that is known from elsewhere.
type OwingTable interface {
	Table
	// Owe charges a key under each limit of a plan: a number of permits, all of which come back by
	// until. A bucket, which recovers evenly, is charged the usage that it recovers until then. An
	// aligned window stays aligned, and its usage ends with the current window. Owe never lowers
	// the usage of a key: a key with more usage stays as it is.
	Owe(key string, plan ID, permits int64, until time.Time) error
}
