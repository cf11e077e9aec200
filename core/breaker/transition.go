package breaker

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/jitter"
)

// The lowest bits of Breaker.word are the state. With the next one, calm, a success that is not slow changes nothing but a counter.
// With timed, calls are timed; in the word of a Permit, this call is.
const (
	stateBits = 3
	calm      = 1 << stateBits
	timed     = calm << 1
	wordBits  = stateBits + 2
)

func stateOf(word uint64) State { return State(word & (calm - 1)) }

// lock acquires the lock and makes the changes that are due at now.
func (b *Breaker) lock(ctx context.Context, now time.Duration) {
	if b.mu.Lock(); b.state != Closed || b.buckets != nil {
		b.advance(ctx, now)
	}
}

// unlock releases the lock and reports whether announce must be called.
func (b *Breaker) unlock() (queued bool) {
	queued, b.queued = b.queued, false
	b.mu.Unlock()
	return queued
}

// change calls f under the lock, and then announces the changes.
func (b *Breaker) change(f func(ctx context.Context, now time.Duration)) {
	ctx, now := context.Background(), b.now()
	b.lock(ctx, now)
	f(ctx, now)
	b.announce(b.unlock())
}

// advance makes the changes that are due at now, which can be 0 for the end of a call: a closed breaker has none.
func (b *Breaker) advance(ctx context.Context, now time.Duration) {
	if b.buckets != nil {
		b.buckets.turn(now)
	}
	if limit := b.rules.MaxHalfOpen; b.state == HalfOpen && b.admitted > b.trials.calls && now-b.latest >= limit {
		b.open(ctx, now, 0, fmt.Sprintf("no result of a trial for %v", limit))
	}
	if b.state == Open && b.refusal.Load().RetryAfter() == 0 {
		b.to(ctx, HalfOpen, now, "open for "+b.openFor.Round(time.Millisecond).String())
	}
}

// far reports whether the breaker is closed and has certainly too few failures and slow calls to open (BenchmarkAcquire).
func (b *Breaker) far() bool {
	r, c := b.rules, b.window
	return b.state == Closed && b.row < r.Failures &&
		(c.calls < r.MinCalls || below(c.failures, r.FailureRate, c.calls) && below(c.slow, r.SlowRate, c.calls))
}

// below reports whether n of the calls are certainly fewer than a rate, whatever the rounding.
func below(n int, rate float64, calls int) bool { return float64(n) < rate*float64(calls)*(1-1e-9) }

// verdict returns the state that follows from the calls in the window, or from the trials as soon as the outstanding ones can no
// longer change it, and the rule by which it does, with its counts.
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

const manual = "set by hand"

// decide makes the change of state that follows from a counted call. now is 0 if the clock was not read.
func (b *Breaker) decide(ctx context.Context, now, least, trip time.Duration) {
	switch to, reason := b.verdict(); {
	case to == Open:
		b.open(ctx, now, max(least, trip), reason)
	case trip > 0:
		b.openBy(ctx, now, trip, "asked to wait")
	case to != b.state:
		b.to(ctx, to, now, reason)
	}
}

// open opens the breaker for the result of OpenDelay, and at least for least. If OpenDelay panics, it is open for the default time,
// and the lock is released.
func (b *Breaker) open(ctx context.Context, now, least time.Duration, reason string) {
	returned := false
	defer func() {
		if b.to(ctx, Open, now, reason); !returned {
			b.mu.Unlock()
		}
	}()
	b.askDelay(least)
	returned = true
}

// openBy opens the breaker for d.
func (b *Breaker) openBy(ctx context.Context, now, d time.Duration, reason string) {
	b.opened++
	b.openFor = d
	b.to(ctx, Open, now, reason)
}

func (b *Breaker) askDelay(least time.Duration) {
	b.opened++
	prev := b.delay
	b.delay, b.openFor = defaultOpenTime, max(least, defaultOpenTime) // if it panics
	b.delay = max(0, b.rules.OpenDelay.Next(b.opened, prev))
	b.openFor = jitter.Above(least, b.rules.OpenDelay, b.opened, prev, b.delay)
}

// to enters a state and queues its announcement.
func (b *Breaker) to(ctx context.Context, state State, now time.Duration, reason string) {
	if now == 0 {
		now = b.now()
	}
	c := StateChange{Name: b.Name(), Key: b.key, From: b.state, To: state, Reason: reason}
	if b.enter(state, now); state == Open {
		c.OpenFor = b.openFor
		b.openings.Add(1)
	}
	b.changes.Append(func() { b.tell(ctx, c) })
	b.queued = true
}

// enter sets all fields for the beginning of a state. For Open, opened and openFor are set before.
func (b *Breaker) enter(state State, now time.Duration) {
	b.state, b.since = state, now
	b.generation++
	refusal := &OpenError{Name: b.Name(), Key: b.key, State: state}
	switch state {
	case Open:
		refusal.until = b.base.Add(now).Add(b.openFor)
	case HalfOpen:
		b.trials, b.admitted = counts{}, 0
		refusal.wait = min(cmp.Or(b.openFor, defaultOpenTime), b.rules.MaxHalfOpen)
	case ForcedOpen:
		b.opened, b.openFor, b.delay = 0, 0, 0
	case Closed, Disabled, MetricsOnly:
		b.opened, b.openFor, b.delay, b.row, refusal = 0, 0, 0, 0, nil
		b.resize()
	}
	b.refusal.Store(refusal)
	b.publish()
}

// publish makes the state visible to calls that do not take the lock.
func (b *Breaker) publish() {
	word := b.generation<<wordBits | uint64(b.state)
	if b.rules.SlowCall > 0 {
		word |= timed
	}
	if b.ring.calm() && (b.state == Closed || b.state == MetricsOnly) {
		word |= calm
	}
	if b.word.Load() != word {
		b.word.Store(word)
	}
}

// State returns the state.
func (b *Breaker) State() State { return b.Stats().State }

// SetState changes the state by hand. Open ends after OpenDelay; ForcedOpen, Disabled and MetricsOnly stay. Closed empties the
// window. A value that is no state is a *core.ConfigError.
func (b *Breaker) SetState(s State) error {
	if s > MetricsOnly {
		return &core.ConfigError{Field: "breaker.Breaker.SetState", Value: s, Reason: "must be a state"}
	}
	b.change(func(ctx context.Context, now time.Duration) {
		switch {
		case s == Closed && b.state == Closed:
			b.enter(Closed, now)
		case s == b.state:
		case s == Open:
			b.open(ctx, now, 0, manual)
		default:
			b.to(ctx, s, now, manual)
		}
	})
	return nil
}

// OpenFor opens the breaker by hand for a time, as for a maintenance that was announced. If it is open already, the time begins now.
func (b *Breaker) OpenFor(d time.Duration) error {
	if d <= 0 {
		return &core.ConfigError{Field: "breaker.Breaker.OpenFor", Value: d, Reason: "must be > 0"}
	}
	b.change(func(ctx context.Context, now time.Duration) { b.openBy(ctx, now, d, manual) })
	return nil
}
