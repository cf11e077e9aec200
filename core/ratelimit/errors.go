package ratelimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/text"
)

var (
	// ErrLimited is matched by a [*LimitedError], the error of a refused Wait. Take, TakeAtMost and
	// Reserve do not return it: check Result.Allowed.
	ErrLimited = errors.New("ratelimit: limited")
	// ErrClosed is the error of a closed limiter or store. It matches
	// [core.ErrRejected], and waiting does not help.
	ErrClosed = limits.ErrClosed
	// ErrStore is matched by the error of an operation that the store could not decide. The error wraps that of
	// the store. It is not a refusal.
	ErrStore = errors.New("ratelimit: store failed")
)

// A LimitedError is a refused wait: the permits do not come in time, or never. It matches
// [ErrLimited] and [core.ErrRejected].
type LimitedError struct {
	Name   string // of the limiter
	Result Result // of the refusal
}

// Error includes the wait that would have been necessary.
func (e *LimitedError) Error() string {
	if e.Result.RetryAfter == Never {
		return fmt.Sprintf("ratelimit: %s: the cost is above the limit of %d", e.Name, e.Result.Limit)
	}
	return fmt.Sprintf("ratelimit: %s: limited, retry after %s", e.Name, text.About(e.Result.RetryAfter))
}

// Is matches [ErrLimited] and [core.ErrRejected].
func (e *LimitedError) Is(target error) bool {
	return target == ErrLimited || target == core.ErrRejected
}

// RetryAfter is the earliest time at which the same cost can be allowed, or
// [Never].
func (e *LimitedError) RetryAfter() time.Duration { return e.Result.RetryAfter }

// A storeError is the error of a store, of one limiter.
type storeError struct {
	limiter string
	err     error
}

func (e *storeError) Error() string {
	return fmt.Sprintf("ratelimit: %s: store failed: %v", e.limiter, e.err)
}

func (e *storeError) Unwrap() []error { return []error{ErrStore, e.err} }
