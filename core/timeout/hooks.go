package timeout

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks are called by the goroutine that runs the operation, with no lock held.
// They must not block. A panic in one is recovered and counted.
type Hooks struct {
	// TimedOut is called when an operation has ended with an error after its limit.
	TimedOut func(ctx context.Context, info Info)
}

// Info describes an operation that timed out.
type Info struct {
	// Limit is its time limit.
	Limit time.Duration
	// Elapsed is the time that it took: more than Limit if it ended some time after its
	// context.
	Elapsed time.Duration
	// Err is the error for the caller, an [*Error].
	Err error
}

// Join returns hooks that call those of h and then those of other, which are
// called even when one of h panics.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{TimedOut: hook.Join(h.TimedOut, other.TimedOut)}
}
