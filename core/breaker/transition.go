package breaker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/jitter"
)

// The lowest bits of Breaker.word are the state. With the next one, calm, a success that is not slow changes nothing but a counter.
// With timed, calls are timed; in the word of a Permit, this call is. With aging, the window is one of time.
const (
	stateBits = 3
	calm      = 1 << stateBits
	timed     = calm << 1
	aging     = timed << 1
	wordBits  = stateBits + 3
)

func stateOf(word uint64) State { return State(word & (calm - 1)) }

// lock acquires the lock and makes the changes that are due at now.
func (b *Breaker) lock(ctx context.Context, now time.Duration) {
	b.mu.Lock()
	b.advance(ctx, now)
}

func (b *Breaker) advance(ctx context.Context, now time.Duration) {
	if b.buckets != nil {
		b.buckets.turn(now)
	}
	if limit := b.rules.maxHalfOpen; b.state == HalfOpen && b.admitted > b.trials.calls && now-b.latest >= limit {
		b.open(ctx, now, 0, fmt.Sprintf("no result of a trial for %v", limit))
	}
	if b.state == Open && now >= b.until {
		b.to(ctx, HalfOpen, now, "open for "+b.openFor.Round(time.Millisecond).String())
	}
}

// unlock releases the lock and reports whether announce must be called.
func (b *Breaker) unlock() (queued bool) {
	queued, b.queued = b.queued, false
	b.mu.Unlock()
	return queued
}

// locked calls f under the lock, after the changes that are due, and then announces the changes.
func (b *Breaker) locked(f func(ctx context.Context, now time.Duration)) {
	ctx, now := context.Background(), b.now()
	b.lock(ctx, now)
	f(ctx, now)
	b.announce(b.unlock())
}

// window returns the counts of the window.
func (b *Breaker) window() *counts {
	if b.buckets != nil {
		return &b.buckets.counts
	}
	return &b.ring.counts
}

// rates returns the counts whose rates decide in the present state.
func (b *Breaker) rates() counts {
	if b.state == HalfOpen {
		return b.trials
	}
	return *b.window()
}

// far reports whether the window has certainly too few failures and slow calls for any limit.
func (b *Breaker) far() bool {
	r, c := b.rules, b.window()
	return b.row < r.failures && (c.failures < r.fewest || below(c.failures, r.rate, c.calls)) &&
		(c.slow < r.fewestSlow || below(c.slow, r.slowRate, c.calls))
}

// below reports whether n of the calls are certainly fewer than a rate, whatever the rounding.
func below(n int, rate float64, calls int) bool { return float64(n) < rate*float64(calls)*(1-1e-9) }

// exceeded returns the rule by which a closed breaker opens, with its counts, or "".
func (b *Breaker) exceeded() string {
	r, c := b.rules, b.window()
	switch {
	case b.row >= r.failures:
		return fmt.Sprintf("%d failures in a row", b.row)
	case c.calls < r.MinCalls:
	case rate(c.failures, c.calls) >= r.rate:
		return fmt.Sprintf("%d of %d calls failed", c.failures, c.calls)
	case rate(c.slow, c.calls) >= r.slowRate:
		return fmt.Sprintf("%d of %d calls were slow", c.slow, c.calls)
	}
	return ""
}

// verdict returns the state that follows from the trials and why, as soon as the outstanding ones can no longer change it.
func (b *Breaker) verdict() (to State, reason string) {
	r, t := b.rules, b.trials
	all := max(r.Trials, t.calls)
	more := all - t.calls
	switch {
	case rate(t.failures, all) >= r.trialRate:
		return Open, fmt.Sprintf("%d of %d trials failed", t.failures, all)
	case rate(t.slow, all) >= r.slowRate:
		return Open, fmt.Sprintf("%d of %d trials were slow", t.slow, all)
	case rate(t.failures+more, all) < r.trialRate && rate(t.slow+more, all) < r.slowRate:
		return Closed, fmt.Sprintf("%d of %d trials succeeded", t.calls-t.failures, all)
	}
	return HalfOpen, ""
}

// Reasons of changes.
const (
	asked  = "asked to wait"
	manual = "set by hand"
)

// decide makes the change of state that follows from a counted call. now is 0 if the clock was not read.
func (b *Breaker) decide(ctx context.Context, now, least, trip time.Duration) {
	switch b.state {
	case Closed:
		if reason := b.exceeded(); reason != "" {
			b.open(ctx, now, max(least, trip), reason)
		} else if trip > 0 {
			b.opened, b.openFor = b.opened+1, trip
			b.to(ctx, Open, now, asked)
		}
	case HalfOpen:
		switch to, reason := b.verdict(); {
		case to == Open, trip > 0:
			b.open(ctx, now, max(least, trip), cmp.Or(reason, asked))
		case to == Closed:
			b.to(ctx, Closed, now, reason)
		}
	case Open, ForcedOpen, Disabled, MetricsOnly:
	}
	b.publish()
}

// open opens the breaker for the result of OpenDelay, and at least for least. If OpenDelay panics, it is open for the default time,
// and the lock is released.
func (b *Breaker) open(ctx context.Context, now, least time.Duration, reason string) {
	returned := false
	defer func() {
		b.to(ctx, Open, now, reason)
		if !returned {
			b.mu.Unlock()
		}
	}()
	b.askDelay(least)
	returned = true
}

func (b *Breaker) askDelay(least time.Duration) {
	b.opened++
	prev := b.delay
	b.delay, b.openFor = defaultOpenTime, max(least, defaultOpenTime) // if it panics
	b.delay = max(0, b.rules.OpenDelay.Next(b.opened, prev))
	b.openFor = jitter.Above(least, b.rules.OpenDelay, b.opened, prev, b.delay)
}

// to enters another state and queues its announcement.
func (b *Breaker) to(ctx context.Context, state State, now time.Duration, reason string) {
	if now == 0 {
		now = b.now()
	}
	c := change{ctx: ctx, rates: b.rates(), state: StateChange{Name: b.Name(), Key: b.key, From: b.state, To: state, Reason: reason}}
	b.transitions[b.state][state].Add(1)
	b.enter(state, now)
	if state == Open {
		c.state.OpenFor = b.openFor
		b.openings++
	}
	c.n = b.opened
	b.changes.Append(c)
	b.queued = true
}

// enter sets all fields for the beginning of a state. For Open, opened and openFor are set before.
func (b *Breaker) enter(state State, now time.Duration) {
	b.state, b.since = state, now
	b.generation++
	var refusal *OpenError
	switch state {
	case Open:
		if b.until = now + b.openFor; b.until < now {
			b.until = math.MaxInt64
		}
		refusal = &OpenError{over: b.until, until: b.base.Add(b.until)}
	case HalfOpen:
		b.opened = max(1, b.opened)
		b.trials, b.admitted = counts{}, 0
		refusal = &OpenError{wait: min(cmp.Or(b.openFor, defaultOpenTime), b.rules.maxHalfOpen)}
	case ForcedOpen, Closed, Disabled, MetricsOnly:
		if b.opened, b.openFor, b.delay = 0, 0, 0; state == ForcedOpen {
			refusal = &OpenError{}
		} else if state != Disabled {
			b.empty()
		}
	}
	if refusal != nil {
		refusal.Name, refusal.Key, refusal.State, refusal.generation = b.Name(), b.key, state, b.generation
	}
	b.refusal.Store(refusal)
	b.publish()
}

// publish makes the state visible to calls that do not take the lock.
func (b *Breaker) publish() {
	word := b.generation<<wordBits | uint64(b.state)
	if b.state == Closed || b.state == MetricsOnly {
		if b.rules.SlowCall > 0 || b.durations.Load() != nil || b.overridden.Load() {
			word |= timed
		}
		if b.buckets != nil {
			word |= aging
		} else if b.ring.calm() {
			word |= calm
		}
	}
	if b.word.Load() != word {
		b.word.Store(word)
	}
}

// State returns the state.
func (b *Breaker) State() State {
	state := stateOf(b.word.Load())
	if state == Open || state == HalfOpen { // its time may be over
		b.locked(func(context.Context, time.Duration) { state = b.state })
	}
	return state
}

// SetState changes the state by hand. Open ends after OpenDelay; ForcedOpen, Disabled and MetricsOnly stay. Closed empties the
// window. A value that is no state is a *core.ConfigError.
func (b *Breaker) SetState(s State) error {
	if s > MetricsOnly {
		return &core.ConfigError{Field: "breaker.Breaker.SetState", Value: s, Reason: "must be a state"}
	}
	b.locked(func(ctx context.Context, now time.Duration) {
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
	b.locked(func(ctx context.Context, now time.Duration) {
		if b.openFor = d; b.state == Open {
			b.enter(Open, now)
			return
		}
		b.opened++
		b.to(ctx, Open, now, manual)
	})
	return nil
}
