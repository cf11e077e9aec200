package breaker

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/stripe"
)

// Stats are counts since the breaker was made.
type Stats struct {
	Successes uint64 // calls that were counted as such
	Failures  uint64 // calls that were counted as such
	Ignored   uint64 // calls that said nothing
	Late      uint64 // calls that ended too late to count: in another state, or after their TrialTimeout
	Rejected  uint64 // calls that were not admitted

	SlowSuccesses uint64 // those of Successes that took longer than SlowCall
	SlowFailures  uint64 // those of Failures that did

	Exceeded   uint64 // times that a rate was reached while MetricsOnly, as RateExceeded tells
	Opened     uint64 // times that the breaker was opened; not those of ForcedOpen
	HookPanics uint64 // calls of hooks that ended in a panic; of all breakers of a Group
}

type counters struct {
	calm, rejected                        stripe.Counter // calm: successes without the lock
	ignored                               atomic.Uint64
	successes, failures, late, opened     uint64 // under the lock, as are the next
	slowSuccesses, slowFailures, exceeded uint64
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
	return Stats{
		Successes: c.successes + c.calm.Load(), Failures: c.failures, Ignored: c.ignored.Load(),
		Late: c.late, Rejected: c.rejected.Load(), SlowSuccesses: c.slowSuccesses, SlowFailures: c.slowFailures, Exceeded: c.exceeded, Opened: c.opened, HookPanics: b.panics.Count(),
	}
}

// A Snapshot is what a breaker looks like at one moment.
type Snapshot struct {
	Name, Key string
	State     State
	Since     time.Time // when the state began

	// The window. While half-open it is what it was before, unless
	// Config.JudgeWithHistory is set.
	Calls, Failures int
	// Slow is how many of Calls took longer than SlowCall, and SlowFailures how many
	// of Failures did.
	Slow, SlowFailures int
	// FailureRate and SlowRate are what the state is judged by: the share of failures
	// and of slow calls in the window; or, half-open, those of the trials that have
	// ended, unless Config.JudgeWithHistory is set.
	FailureRate, SlowRate float64
	// RatesKnown tells whether there are enough calls for that: MinCalls in the
	// window, or a trial that has ended. If not, both rates are 0, and say nothing.
	RatesKnown bool
	// Threshold is the FailureRate at which the breaker opens, SlowThreshold the
	// SlowRate; 0 if there is no SlowCall.
	Threshold, SlowThreshold float64
	MinCalls                 int

	// Opened is how many times the breaker was opened since it was last closed. Made
	// half-open without that, it counts as opened once.
	Opened    int
	OpenFor   time.Duration // how long the last time; 0 when closed
	OpenUntil time.Time     // zero unless Open

	// Half-open: the trials that run, that have ended, and that failed.
	TrialsRunning, TrialsEnded, TrialsFailed int
	// Trials is how many there are to be.
	Trials int
	// SlotUntil is when the oldest of the trials that run loses its slot. It is zero
	// while there are slots, or without a TrialTimeout.
	SlotUntil time.Time
}

// RetryAfter is what a rejected call is told: the time that is left, now, until
// OpenUntil; half-open, when all trials are taken, OpenFor, or DefaultOpenTime if it
// was not open, but not longer than until SlotUntil; negative when forced open. It is 0 when calls are admitted.
func (s Snapshot) RetryAfter() time.Duration {
	switch s.State {
	case Open:
		return max(0, time.Until(s.OpenUntil))
	case HalfOpen:
		switch {
		case s.TrialsRunning+s.TrialsEnded < s.Trials:
		case s.SlotUntil.IsZero():
			return cmp.Or(s.OpenFor, DefaultOpenTime)
		default:
			return min(cmp.Or(s.OpenFor, DefaultOpenTime), max(0, time.Until(s.SlotUntil)))
		}
	case ForcedOpen:
		return -1
	case Closed, Disabled, MetricsOnly:
	}
	return 0
}

// Snapshot returns how the breaker stands. Like State it makes the change that is
// due.
func (b *Breaker) Snapshot() Snapshot {
	now := b.now()
	b.lock(context.Background(), now)
	window, rates := b.window(), b.ratesNow()
	s := Snapshot{
		Name: b.Name(), Key: b.key, State: b.state, Since: b.base.Add(b.since),
		Calls: window.calls, Failures: window.failures, Slow: window.slow, SlowFailures: window.slowFailures,
		FailureRate: rates.failure, SlowRate: rates.slow, RatesKnown: rates.known,
		Threshold: b.rules.rate, MinCalls: b.rules.minCalls,
		Opened: b.opened, OpenFor: b.openFor, Trials: b.rules.trialCount,
	}
	if b.rules.slowCall > 0 {
		s.SlowThreshold = b.rules.slowRate
	}
	switch b.state {
	case Open:
		s.OpenUntil = b.base.Add(b.until)
	case HalfOpen:
		s.TrialsRunning, s.TrialsEnded, s.TrialsFailed = b.trials.taken, b.trials.calls, b.trials.failures
		_, oldest := b.trials.scan()
		if until, full := b.trials.full(oldest, b.rules.trialTimeout); full && until != never {
			s.SlotUntil = b.base.Add(until)
		}
	case Closed, ForcedOpen, Disabled, MetricsOnly:
	}
	b.announce(b.unlock())
	return s
}
