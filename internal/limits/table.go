package limits

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
)

// MaxLimits is how many limits hold a key at a time.
const MaxLimits = 4

// ErrClosed is the error of a closed limiter or store. It matches core.ErrClosed.
var ErrClosed = fmt.Errorf("ratelimit: %w", core.ErrClosed)

// As returns the first table with a capability: t, or the table that the method Unwrap() Table of
// a table returns, and so on.
func As[T any](t Table) (capable T, ok bool) {
	for {
		if capable, ok = t.(T); ok {
			return capable, true
		}
		w, wraps := t.(interface{ Unwrap() Table })
		if !wraps {
			return capable, false
		}
		t = w.Unwrap()
	}
}

// IsUnsent reports whether an error is one of [Unsent], and whether the store is unavailable.
func IsUnsent(err error) (unavailable, ok bool) {
	var unsent interface{ Unsent() (unavailable bool) }
	if ok = errors.As(err, &unsent); ok {
		unavailable = unsent.Unsent()
	}
	return unavailable, ok
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
	Owe(key string, plan *Plan, permits int64, until time.Time) error
}

// A CountingTable is a Table that counts its keys.
type CountingTable interface {
	Table
	// Counts returns the keys that it holds, and how many it dropped with a debt.
	Counts() (keys int, evicted uint64)
}
