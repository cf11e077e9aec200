package breaker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/jitter"
	"github.com/gresil/gresil/internal/registry"
)

// The lowest bits of Breaker.word are the state. If calm is set, a success that is not slow changes nothing but a counter, until
// Breaker.until. If timed is set, calls are timed; in the word of a Permit, it means that this call is timed.
const (
	stateBits = 3
	calm      = 1 << stateBits
	timed     = calm << 1
	wordBits  = stateBits + 2
)

func stateOf(word uint64) State { return State(word & (calm - 1)) }

// far reports whether the breaker is closed and has certainly too few failures and slow calls to open. Then no verdict
// is needed (BenchmarkAcquire).
func (b *Breaker) far() bool {
	r, c := b.rules, b.window
	few := func(n int, rate float64) bool { return float64(n) < rate*float64(c.calls)*(1-1e-9) } // whatever the rounding
	return b.state == Closed && b.row < r.Failures && (c.calls < r.MinCalls || few(c.failures, r.FailureRate) && (c.slow == 0 || few(c.slow, r.SlowRate)))
}

// unlock releases the lock and reports whether announce must be called.
func (b *Breaker) unlock() (queued bool) {
	queued, b.queued = b.queued, false
	b.mu.Unlock()
	return queued
}

// change calls f under the lock, and then announces the changes.
func (b *Breaker) change(f func(ctx context.Context)) {
	ctx := context.Background()
	b.lock(ctx, b.now())
	f(ctx)
	b.announce(b.unlock())
}

// lock acquires the lock and makes the changes that are due at now. At the end of a call, now can be 0 if the clock was not read: a closed
// breaker has no changes that are due.
func (b *Breaker) lock(ctx context.Context, now time.Duration) {
	b.mu.Lock()
	if b.buckets != nil {
		b.buckets.turn(now, b.calm.Load())
	}
	if limit := b.rules.MaxHalfOpen; b.state == HalfOpen && b.admitted > b.trials.calls && now-b.latest >= limit {
		b.open(ctx, 0, fmt.Sprintf("no result of a trial for %v", limit))
	}
	if b.state == Open && b.refusal.Load().RetryAfter() == 0 {
		b.to(ctx, HalfOpen, "open for "+b.openFor.Round(time.Millisecond).String())
	}
}

// verdict returns the state that follows from the calls in the window or from the trials, and the rule that decides, with its counts.
// Trials decide as soon as the outstanding ones cannot change the result.
func (b *Breaker) verdict() (to State, reason string) {
	r, c, calls, failures := b.rules, b.window, "calls", b.rules.FailureRate
	all := c.calls
	if b.state == HalfOpen {
		c, calls = &b.trials, "trials"
		if all = max(r.Trials, c.calls); failures > 1 {
			failures = defaultFailureRate
		}
	}
	switch more := all - c.calls; {
	case b.state == Closed && b.row >= r.Failures:
		return Open, fmt.Sprintf("%d failures in a row", b.row)
	case b.state == Closed && all < r.MinCalls:
	case rate(c.failures, all) >= failures:
		return Open, fmt.Sprintf("%d of %d %s failed", c.failures, all, calls)
	case rate(c.slow, all) >= r.SlowRate:
		return Open, fmt.Sprintf("%d of %d %s were slow", c.slow, all, calls)
	case b.state == HalfOpen && rate(c.failures+more, all) < failures && rate(c.slow+more, all) < r.SlowRate:
		return Closed, fmt.Sprintf("%d of %d trials succeeded", c.calls-c.failures, all)
	}
	return b.state, ""
}

// decide makes the change of state that follows from a counted call.
func (b *Breaker) decide(ctx context.Context, least, trip time.Duration) {
	switch to, reason := b.verdict(); {
	case to == Open:
		b.open(ctx, max(least, trip), reason)
	case trip > 0:
		b.openBy(ctx, trip, "asked to wait")
	case to != b.state:
		b.to(ctx, to, reason)
	}
}

// open opens the breaker for OpenDelay's result or least, whichever is longer. If OpenDelay panics, the breaker is open for the default
// time, and the lock is released.
func (b *Breaker) open(ctx context.Context, least time.Duration, reason string) {
	returned := false
	defer func() {
		if b.to(ctx, Open, reason); !returned {
			b.mu.Unlock()
		}
	}()
	b.askDelay(least)
	returned = true
}

// openBy opens the breaker for d.
func (b *Breaker) openBy(ctx context.Context, d time.Duration, reason string) {
	b.opened++
	b.openFor = d
	b.to(ctx, Open, reason)
}

func (b *Breaker) askDelay(least time.Duration) {
	b.opened++
	prev := b.delay
	b.delay, b.openFor = defaultOpenTime, max(least, defaultOpenTime) // if it panics
	b.delay = max(0, b.rules.OpenDelay.Next(b.opened, prev))
	b.openFor = max(b.delay, min(jitter.Above(least, b.rules.OpenDelay, b.opened, prev, b.delay), b.rules.MaxRetryAfter))
}

// to enters a state and queues its announcement. An empty reason means that the user has set the state.
func (b *Breaker) to(ctx context.Context, state State, reason string) {
	c := StateChange{Name: b.Name(), Key: b.key, From: b.state, To: state, Reason: cmp.Or(reason, "set by hand")}
	if b.enter(state); state == Open {
		c.OpenFor = b.openFor
		b.openings.Add(1)
	}
	b.changes.Append(func() { b.tell(ctx, c) })
	b.queued = true
}

// enter sets all fields for the beginning of a state. For Open, callers set opened and openFor.
func (b *Breaker) enter(state State) {
	b.state, b.since = state, b.now()
	b.generation++
	refusal := &OpenError{Name: b.Name(), Key: b.key, State: state, secret: registry.OtherKeys(&b.keys)}
	switch state {
	case Open:
		refusal.until = b.base.Add(b.since).Add(b.openFor) // it saturates
	case HalfOpen:
		b.trials, b.admitted = counts{}, 0
		if refusal.wait = b.openFor; b.opened == 0 { // it was not open
			refusal.wait = defaultOpenTime
		}
		refusal.wait = min(refusal.wait, b.rules.MaxHalfOpen)
	case ForcedOpen:
		b.opened, b.openFor, b.delay = 0, 0, 0
	case Closed, Disabled, MetricsOnly:
		b.opened, b.openFor, b.delay, b.row, refusal = 0, 0, 0, 0, nil
		b.resize()
	}
	b.refusal.Store(refusal)
	b.publish()
}

// publish makes the state visible to calls that do not take the lock: until first, so that no one uses it with a later word.
func (b *Breaker) publish() {
	word := b.generation<<wordBits | uint64(b.state)
	if b.rules.SlowCall > 0 {
		word |= timed
	}
	until := int64(forever)
	if b.buckets != nil {
		until = int64(b.buckets.over)
	}
	if b.until.Load() != until {
		b.until.Store(until)
	}
	if (b.state == Closed || b.state == MetricsOnly) && b.isCalm() {
		word |= calm
	}
	if b.word.Load() != word {
		b.word.Store(word)
	}
}

// State returns the state.
func (b *Breaker) State() State { return b.Stats().State }

// SetState changes the state by hand. Open ends after OpenDelay; ForcedOpen, Disabled and MetricsOnly last until the next SetState. Closed
// empties the window. For an unknown state, the error is a *core.ConfigError.
func (b *Breaker) SetState(s State) error {
	if s > MetricsOnly {
		return &core.ConfigError{Field: "breaker.Breaker.SetState", Value: s, Reason: "must be a state"}
	}
	b.change(func(ctx context.Context) {
		switch {
		case s == Closed && b.state == Closed:
			b.enter(Closed)
		case s == b.state:
		case s == Open:
			b.open(ctx, 0, "")
		default:
			b.to(ctx, s, "")
		}
	})
	return nil
}

// OpenFor opens the breaker by hand for a time, such as for an announced maintenance. If it is open already, the time begins again.
func (b *Breaker) OpenFor(d time.Duration) error {
	if d <= 0 {
		return &core.ConfigError{Field: "breaker.Breaker.OpenFor", Value: d, Reason: "must be > 0"}
	}
	b.change(func(ctx context.Context) { b.openBy(ctx, d, "") })
	return nil
}
