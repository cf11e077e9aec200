package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Breaker]. Any of them may be nil. They are called by a
// goroutine that uses the breaker, with no lock held, and must not block. They may
// use the breaker. A panic in one is counted and goes no further.
type Hooks struct {
	// StateChanged is called for every change of state, in order: another one is
	// not told of before this call returns. ctx is that of the call that brought
	// the change about; context.Background when it was made by hand or by looking.
	StateChanged func(ctx context.Context, info StateChangedInfo)
	// Reset is called for every Reset, in order with the changes of state, and
	// before the one that it may bring about.
	Reset func(ctx context.Context, info ResetInfo)
	// RateExceeded is called when a rate is reached at which a breaker would open, but
	// does not for being MetricsOnly: for each rate once, until the state is set anew
	// or the breaker reset. It is in order with the changes of state.
	RateExceeded func(ctx context.Context, info RateExceededInfo)
	// Recorded is called when a call has ended, unless it is too late to count, as
	// Stats.Late tells, or was admitted while Disabled. Calls have no order among each
	// other. With this hook the clock is read twice for each call.
	Recorded func(ctx context.Context, info RecordedInfo)
	// Rejected is called when a call is not admitted.
	Rejected func(ctx context.Context, info RejectedInfo)
}

// StateChangedInfo tells of a change of state.
type StateChangedInfo struct {
	Name        string // of the breaker, or of its Group
	Key         string // in its Group
	From, To    State
	Manual      bool          // by SetState, OpenFor or Reset
	FailureRate float64       // at which it changed, as in RecordedInfo
	SlowRate    float64       // the same
	OpenFor     time.Duration // when To is Open: for how long
	Opened      int           // as in Snapshot, and as OpenDelay is told
}

// RecordedInfo tells of a call that has ended.
type RecordedInfo struct {
	Name        string // of the breaker, or of its Group
	Key         string // in its Group
	State       State  // in which the call was admitted and has ended
	Outcome     core.Outcome
	Slow        bool          // it took longer than SlowCall
	FailureRate float64       // with this call, as in Snapshot
	SlowRate    float64       // the same
	Duration    time.Duration // of the call; 0 when the hook was not there when it began
}

// RejectedInfo tells of a call that was not admitted.
type RejectedInfo struct {
	Name  string     // of the breaker, or of its Group
	Key   string     // in its Group
	State State      // Open, HalfOpen or ForcedOpen
	Err   *OpenError // what the caller gets
}

// RateExceededInfo tells of a rate at which a breaker would open.
type RateExceededInfo struct {
	Name      string  // of the breaker, or of its Group
	Key       string  // in its Group
	Slow      bool    // the rate is that of slow calls, and not of failures
	Rate      float64 // now
	Threshold float64 // the one that it reached
}

// ResetInfo tells of a Reset.
type ResetInfo struct {
	Name string // of the breaker, or of its Group
	Key  string // in its Group
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		StateChanged: hook.Join(h.StateChanged, other.StateChanged),
		Reset:        hook.Join(h.Reset, other.Reset),
		RateExceeded: hook.Join(h.RateExceeded, other.RateExceeded),
		Recorded:     hook.Join(h.Recorded, other.Recorded),
		Rejected:     hook.Join(h.Rejected, other.Rejected),
	}
}

// tell calls a hook, if there is one.
func tell[I any](ctx context.Context, panics *hook.Panics, f func(context.Context, I), info I) {
	if f != nil {
		defer panics.Recover()
		f(ctx, info)
	}
}
