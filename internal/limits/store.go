package limits

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
	// Plan makes limits ready for Apply that hold together, 1 to 4. They are valid.
	Plan(limits []Spec) (*Plan, error)
	// Apply does one operation on one key, under a plan of this table. An error means that the store could not decide; it
	// is not a refusal. The key may be a buffer that is used again after the call: a store that
	// keeps it copies it.
	Apply(ctx context.Context, key string, plan *Plan, op Op) (Result, error)
}

// An InstanceTable is a Table that counts the processes which use it.
type InstanceTable interface {
	Table
	// Instances returns the number of processes that share the table, 1 at least, the place of this
	// one among them, from 0, and the time of a clock that all of them have in common, since a fixed
	// moment. It does not wait: the values are the last known ones. The process is counted from the first call
	// until the store is closed.
	Instances() (n, rank int64, now time.Duration)
}

// Unsent marks the error of an operation that has certainly taken nothing. After any other error the
// permits might have been taken. unavailable is for a store that does not try to send: the next
// operation on the key should wait.
func Unsent(err error, unavailable bool) error { return &unsent{err, unavailable} }

type unsent struct {
	error

	unavailable bool
}

func (e *unsent) Unwrap() error { return e.error }

// Unsent returns the argument of [Unsent]: see limits.IsUnsent.
func (e *unsent) Unsent() (unavailable bool) { return e.unavailable }
