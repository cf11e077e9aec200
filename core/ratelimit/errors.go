package ratelimit

import (
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

var (
	// ErrLimited is matched by a [*LimitedError].
	ErrLimited = errors.New("ratelimit: limited")
	// ErrStore is matched by the error of an operation that the store failed to decide. That error wraps the error of the
	// store. It is not a refusal.
	ErrStore = errors.New("ratelimit: store failed")
)

// A LimitedError is the error of a wait that was refused. It matches [ErrLimited] and core.ErrRejected.
type LimitedError struct {
	Name  string // of the limiter
	Limit string // the name in Config.Limits; empty for Config.Limit
	Key   string // not in the text of the error, as it may be a secret
	// Result is the decision.
	Result Result
}

// Error names the limiter, the limit, and the wait, as in "ratelimit: api: limited for another 25s".
func (e *LimitedError) Error() string {
	name := e.Name
	if e.Limit != "" {
		name += ": " + e.Limit
	}
	if e.Result.RetryAfter < 0 {
		return fmt.Sprintf("ratelimit: %s: the cost is above the limit of %d", name, e.Result.Limit)
	}
	return fmt.Sprintf("ratelimit: %s: limited for another %s", name, text.About(e.Result.RetryAfter))
}

// Is matches ErrLimited and core.ErrRejected.
func (e *LimitedError) Is(target error) bool {
	return target == ErrLimited || target == core.ErrRejected
}

// RetryAfter returns Result.RetryAfter.
func (e *LimitedError) RetryAfter() time.Duration { return e.Result.RetryAfter }

// A storeError is the error of the store of one limiter.
type storeError struct {
	limiter string
	err     error
}

func (e *storeError) Error() string {
	return fmt.Sprintf("ratelimit: %s: store failed: %v", e.limiter, e.err)
}

func (e *storeError) Unwrap() []error { return []error{ErrStore, e.err} }
