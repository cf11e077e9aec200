package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Breaker]. Any of them may be nil. They are called by a goroutine that
// uses the breaker, with no lock held, and must not block. They may use the breaker. A
// panic in a hook is recovered and counted.
type Hooks struct {
	// StateChanged is called for every change of state, in order: the next change is
	// announced after this call returns. ctx is that of the call that caused the
	// change, or context.Background for a change by hand or by a method without ctx.
	StateChanged func(ctx context.Context, info Info)
	// Reset is called for every Reset, in order with the changes of state, and before
	// the change that Reset causes.
	Reset func(ctx context.Context, info Info)
	// RateExceeded is called when a threshold is reached at which the breaker would
	// open if it were not MetricsOnly: once for each threshold until the state is set
	// or the breaker is reset. It is in order with the changes of state.
	RateExceeded func(ctx context.Context, info Info)
	// Recorded is called when a call has ended, unless the call is too late to count
	// (Stats.Late) or was admitted while Disabled. Calls are not ordered among each
	// other. With this hook the clock is read twice for each call.
	Recorded func(ctx context.Context, info Info)
	// Rejected is called when a call is rejected.
	Rejected func(ctx context.Context, info Info)
}

// Info describes an event of a breaker. Each hook sets the fields of its group.
type Info struct {
	Name string // of the breaker, or of its Group
	Key  string // in its Group, otherwise empty
	// State is the new state for StateChanged, and the state of the breaker otherwise.
	State State
	// FailureRate and SlowRate are the rates at the event, as in Snapshot: for
	// StateChanged those that caused it, for Recorded those with this call.
	FailureRate, SlowRate float64

	// StateChanged.
	From    State
	Manual  bool          // by SetState, OpenFor or Reset
	OpenFor time.Duration // if State is Open: for how long
	Opened  int           // as in Snapshot, and as the n of OpenDelay

	// Recorded.
	Outcome  core.Outcome
	Slow     bool          // the call took longer than SlowCall; for RateExceeded, it is the SlowRate
	Duration time.Duration // of the call; 0 if the hook was added after the call began

	// Rejected.
	Err *OpenError // the error that the caller gets
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

// A change is an event that is announced in order, after the lock is released.
type change struct {
	ctx  context.Context //nolint:containedctx // on the way from the call to its hook
	hook func(h *Hooks) func(context.Context, Info)
	info Info
}

func changed(h *Hooks) func(context.Context, Info)   { return h.StateChanged }
func reset(h *Hooks) func(context.Context, Info)     { return h.Reset }
func wouldOpen(h *Hooks) func(context.Context, Info) { return h.RateExceeded }

// queue adds an event. The caller holds the lock.
func (b *Breaker) queue(ctx context.Context, of func(h *Hooks) func(context.Context, Info), info Info) {
	b.changes.Append(change{ctx, of, info})
	b.queued = true
}

// announce calls the hooks of the queued events. The caller does not hold the lock.
func (b *Breaker) announce(queued bool) {
	if queued {
		b.changes.Drain(func(c change) { b.call(c.ctx, c.hook(b.life.Hooks()), &c.info) })
	}
}

// call calls a hook, unless it is nil, and names the breaker in info.
func (b *Breaker) call(ctx context.Context, f func(context.Context, Info), info *Info) {
	if f != nil {
		defer b.life.Panics.Recover()
		info.Name, info.Key = b.Name(), b.key
		f(ctx, *info)
	}
}
