package breaker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/stripe"
)

// Stats are counts since the breaker was made.
type Stats struct {
	Successes uint64 // calls counted as core.Success
	Failures  uint64 // calls counted as core.Failure
	Ignored   uint64 // calls that ended as core.Ignored
	Late      uint64 // calls that ended too late to count: in another state, or after their TrialTimeout
	Rejected  uint64 // calls that were not admitted

	SlowSuccesses uint64 // those of Successes that took longer than SlowCall
	SlowFailures  uint64 // those of Failures that did

	Exceeded uint64 // times that a threshold was reached while MetricsOnly
	Opened   uint64 // times that the breaker was opened; not those of ForcedOpen
}

type counters struct {
	Stats                         // under the lock; the others are added to it
	calm, rejected stripe.Counter // calm: successes without the lock
	ignored        atomic.Uint64
}

// Stats returns the counts so far. A call that ends meanwhile may be in some of
// them only.
func (b *Breaker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statsLocked()
}

func (b *Breaker) statsLocked() Stats {
	c := &b.counters
	s := c.Stats
	s.Successes += c.calm.Load()
	s.Ignored, s.Rejected = c.ignored.Load(), c.rejected.Load()
	return s
}

// A Snapshot is the state of a breaker at one moment.
type Snapshot struct {
	State State
	Since time.Time // when the state began

	// The calls and failures in the window. While half-open they do not change, unless
	// Config.JudgeWithHistory is set.
	Calls, Failures int
	// The calls and failures in the window that took longer than SlowCall.
	Slow, SlowFailures int
	// FailureRate and SlowRate are the rates that decide: those of the window, or while
	// half-open those of the ended trials, unless Config.JudgeWithHistory is set.
	FailureRate, SlowRate float64
	// RatesKnown reports whether there are enough calls for the rates: MinCalls in the
	// window, or an ended trial. If false, both rates are 0.
	RatesKnown bool
	// Threshold is the FailureRate at which the breaker opens, or 0 with
	// Config.Failures. SlowThreshold is the SlowRate, or 0 without a SlowCall.
	Threshold, SlowThreshold float64
	MinCalls                 int

	// Opened is the number of openings since the breaker was last closed. If it was made
	// half-open without one, it counts as opened once.
	Opened    int
	OpenFor   time.Duration // duration of the last opening; 0 when closed
	OpenUntil time.Time     // zero unless Open

	// Half-open: the trials that run, that have ended, and that failed.
	TrialsRunning, TrialsEnded, TrialsFailed int
	// Trials is the number of trials that decide.
	Trials int

	refusal *OpenError // of a call at that moment; nil if it was admitted
}

// RetryAfter returns the wait that a rejected call is given, as [OpenError.RetryAfter]
// does, and 0 if calls were admitted.
func (s Snapshot) RetryAfter() time.Duration {
	if s.refusal == nil {
		return 0
	}
	return s.refusal.RetryAfter()
}

// Snapshot returns the present state. If the time of a state is over, it enters the next
// state first, as State does.
func (b *Breaker) Snapshot() Snapshot {
	now := b.now()
	b.lock(context.Background(), now)
	window, rates := b.window(), b.ratesNow()
	s := Snapshot{
		State: b.state, Since: b.base.Add(b.since),
		Calls: window.calls, Failures: window.failures, Slow: window.slow, SlowFailures: window.slowFailures,
		FailureRate: rates.failure, SlowRate: rates.slow, RatesKnown: rates.known,
		Threshold: b.rules.FailureRate, SlowThreshold: b.rules.SlowRate, MinCalls: b.rules.MinCalls,
		Opened: b.opened, OpenFor: b.openFor, Trials: b.rules.Trials,
	}
	s.refusal = b.refusal.Load()
	switch b.state {
	case Open:
		s.OpenUntil = b.base.Add(b.until)
	case HalfOpen:
		s.TrialsRunning, s.TrialsEnded, s.TrialsFailed = b.trials.taken, b.trials.calls, b.trials.failures
		_, oldest := b.trials.scan()
		if until, full := b.trials.full(oldest, b.rules.trialTimeout); full {
			s.refusal.slot.Store(int64(until))
		} else {
			s.refusal = nil
		}
	case Closed, ForcedOpen, Disabled, MetricsOnly:
	}
	b.announce(b.unlock())
	return s
}
