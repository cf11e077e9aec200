package retry

import (
	"context"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks are called by the goroutine that runs the operation, with no lock held.
// They must not block. A panic in one is recovered and counted.
//
// A call whose first attempt succeeds calls none of them.
type Hooks struct {
	// Retried is called after an attempt that will be repeated, before the wait.
	// info.Retry is the number of the retry to come, info.Delay the wait.
	Retried func(ctx context.Context, info Info)
	// Recovered is called when a retry succeeded. info.Retry is its number.
	Recovered func(ctx context.Context, info Info)
	// Exhausted is called when the last of MaxAttempts failed in a way that would
	// otherwise be retried. info.Retry is the number of retries that were made.
	Exhausted func(ctx context.Context, info Info)
	// Ignored is called for an error that is not retried. On the last attempt this
	// includes a rejection, and any error of a context that is done.
	Ignored func(ctx context.Context, info Info)
	// Suppressed is called when a retry was wanted but is not made although an attempt
	// was left: info.Verdict is the reason.
	Suppressed func(ctx context.Context, info Info)
}

// Join returns hooks that call those of h and then those of other, which are
// called even when one of h panics.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Retried:    hook.Join(h.Retried, other.Retried),
		Recovered:  hook.Join(h.Recovered, other.Recovered),
		Exhausted:  hook.Join(h.Exhausted, other.Exhausted),
		Ignored:    hook.Join(h.Ignored, other.Ignored),
		Suppressed: hook.Join(h.Suppressed, other.Suppressed),
	}
}

func empty(h *Hooks) bool {
	return h.Retried == nil && h.Recovered == nil && h.Exhausted == nil && h.Ignored == nil && h.Suppressed == nil
}

// hookFor returns the hook that a verdict calls.
func hookFor(h *Hooks, v Verdict) func(context.Context, Info) {
	switch v {
	case Again:
		return h.Retried
	case Done:
		return h.Recovered
	case Exhausted:
		return h.Exhausted
	case Ignored:
		return h.Ignored
	case Deadline, RetryAfterTooLong, NotReplayable, Canceled, Rejected, OverBudget:
		return h.Suppressed
	}
	return nil
}

// report calls the hooks for info.Verdict: the configured one and those of observers.
func (p *Policy) report(ctx context.Context, configured *Hooks, info *Info) {
	p.call(ctx, hookFor(configured, info.Verdict), info)
	if observers := p.life.Hooks(); observers != nil {
		p.call(ctx, hookFor(observers, info.Verdict), info)
	}
}

func (p *Policy) call(ctx context.Context, f func(context.Context, Info), info *Info) {
	if f != nil {
		defer p.life.Panics.Recover()
		f(ctx, *info)
	}
}
