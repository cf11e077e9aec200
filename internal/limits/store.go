package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
)

// MaxLimits is how many limits hold a key at a time.
const MaxLimits = 4

// ErrClosed is the error of a closed limiter or store. It matches core.ErrClosed.
var ErrClosed = fmt.Errorf("ratelimit: %w", core.ErrClosed)

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

// A LocalTable is a Table that can decide without its store.
type LocalTable interface {
	Table
	// Local returns a table that decides alone, under the same plans, with the share of this
	// process. It is called once, when a limiter is made with the policy Local or SetConfig
	// changes it to that. A Refund is for the table itself, which knows its own receipts from
	// those of the other.
	Local() Table
}

// Counting returns the first table that counts processes: t, or the table that the method Unwrap() Table of
// a table returns, and so on; or nil.
func Counting(t Table) InstanceTable {
	for {
		switch of := t.(type) {
		case InstanceTable:
			return of
		case interface{ Unwrap() Table }:
			t = of.Unwrap()
		default:
			return nil
		}
	}
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

// IsUnsent reports whether an error is one of [Unsent], and whether the store is unavailable.
func IsUnsent(err error) (unavailable, ok bool) {
	e, ok := errors.AsType[*unsent](err)
	return ok && e.unavailable, ok
}
