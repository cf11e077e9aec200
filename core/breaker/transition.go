package breaker

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/jitter"
)

// The lowest bits of Breaker.word are the state. With the next one, calm, a success that
// is not slow changes nothing but a counter. With timed, calls are timed; in the word of
// a Permit, this call is. With aging, the window is one of time.
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
	if limit := b.rules.MaxHalfOpen; b.state == HalfOpen && limit > 0 && now-b.since >= limit {
		b.open(ctx, now, 0, "half-open for "+limit.String())
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

// locked calls f under the lock, after the changes that are due, and then announces the
// changes.
func (b *Breaker) locked(f func(ctx context.Context, now time.Duration)) {
	ctx, now := context.Background(), b.now()
	b.lock(ctx, now)
	f(ctx, now)
	b.announce(b.unlock())
}

// decide makes the change of state that follows from a counted call. now is 0 if the
// clock was not read.
func (b *Breaker) decide(ctx context.Context, now, least, trip time.Duration) {
	switch b.state {
	case Closed:
		if failing, slow := b.rules.reached(b.window()); failing || slow {
			b.open(ctx, now, max(least, trip), b.reason())
		} else if trip > 0 {
			b.openFor = trip
			b.opened++
			b.to(ctx, Open, now, asked)
		}
	case HalfOpen:
		switch failed, certain := b.certain(); {
		case certain && failed:
			b.open(ctx, now, max(least, trip), b.reason())
		case trip > 0:
			b.open(ctx, now, max(least, trip), asked)
		case certain:
			b.to(ctx, Closed, now, b.reason())
		}
	case MetricsOnly:
		b.exceed(ctx)
	case Open, ForcedOpen, Disabled:
	}
	b.publish()
}

// Reasons of changes.
const (
	asked  = "asked to wait"
	manual = "set by hand"
)

// open opens the breaker for the result of OpenDelay, and at least for least.
func (b *Breaker) open(ctx context.Context, now, least time.Duration, reason string) {
	b.askDelay(least)
	b.to(ctx, Open, now, reason)
}

func (b *Breaker) askDelay(least time.Duration) {
	b.opened++
	prev := b.delay
	b.delay = max(0, b.rules.OpenDelay.Next(b.opened, prev))
	b.openFor = jitter.Above(least, b.rules.OpenDelay, b.opened, prev, b.delay)
}

// to enters another state and queues its announcement.
func (b *Breaker) to(ctx context.Context, state State, now time.Duration, reason string) {
	if now == 0 {
		now = b.now()
	}
	c := change{ctx: ctx, rates: b.ratesNow(), state: StateChange{From: b.state, To: state, Reason: reason}}
	b.transitions[b.state][state].Add(1)
	b.enter(state, now)
	c.n = b.opened
	if state == Open {
		c.state.OpenFor = b.openFor
		b.counters.Opened++
	}
	b.queue(c)
}

// enter sets all fields for the beginning of a state. For Open, opened and openFor are
// set before.
func (b *Breaker) enter(state State, now time.Duration) {
	b.state, b.since = state, now
	b.generation++
	var refusal *OpenError
	if state == Open || state == ForcedOpen {
		b.opening = b.generation
	}
	switch state {
	case Open:
		b.until = now + b.openFor
		if b.until < now {
			b.until = math.MaxInt64
		}
		refusal = &OpenError{over: b.until, until: b.base.Add(b.until)}
	case HalfOpen:
		b.opened = max(1, b.opened)
		b.trials.clear()
		refusal = &OpenError{wait: cmp.Or(b.openFor, defaultOpenTime), until: b.base}
		refusal.slot.Store(never)
	case ForcedOpen:
		b.opened, b.openFor, b.delay = 0, 0, 0
		refusal = &OpenError{}
	case Closed, MetricsOnly, Disabled:
		b.opened, b.openFor, b.delay = 0, 0, 0
		b.exceeded = exceeded{}
		if state != Disabled && !b.rules.JudgeWithHistory {
			b.clearWindow()
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
		if b.rules.SlowCall > 0 || b.durations.Load() != nil {
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

// SetState changes the state by hand. Setting the current state changes nothing, not even
// how long the breaker is open. [Open] ends as always, after the result of OpenDelay;
// [ForcedOpen] stays. With JudgeWithHistory the window stays when the breaker is closed
// by hand, so the next call may open it again: [Breaker.Reset] empties the window. For a
// value that is no state the error is a [*core.ConfigError].
func (b *Breaker) SetState(state State) error {
	if state > MetricsOnly {
		return &core.ConfigError{Field: "breaker.Breaker.SetState", Value: state, Reason: "must be a state"}
	}
	b.locked(func(ctx context.Context, now time.Duration) {
		if state == Open && b.state != Open {
			b.open(ctx, now, 0, manual)
		} else if state != b.state {
			b.to(ctx, state, now, manual)
		}
		b.byHand = true
	})
	return nil
}

// OpenFor opens the breaker by hand for d, as when the upstream has asked for a pause. If
// it is open already, it stays open for d from now. d must be positive; otherwise the
// error is a [*core.ConfigError].
func (b *Breaker) OpenFor(d time.Duration) error {
	if d <= 0 {
		return &core.ConfigError{Field: "breaker.Breaker.OpenFor", Value: d, Reason: "must be > 0"}
	}
	b.locked(func(ctx context.Context, now time.Duration) {
		b.openFor = d
		if b.state == Open {
			b.enter(Open, now)
		} else {
			b.opened++
			b.to(ctx, Open, now, manual)
		}
	})
	return nil
}

// Reset empties the window and closes the breaker. Running calls do not count any more, but
// a [Permit.Trip] of one of them opens it, unless it was open since that call began.
func (b *Breaker) Reset() {
	b.locked(func(ctx context.Context, now time.Duration) {
		b.queue(change{ctx: ctx, text: resetText})
		if b.state == Closed {
			b.enter(Closed, now)
		} else {
			b.to(ctx, Closed, now, manual)
		}
		b.clearWindow()
		b.publish()
	})
}

// State returns the state. If the time of a state is over, State enters the next state
// and announces it.
func (b *Breaker) State() State {
	state := stateOf(b.word.Load())
	if state == Open || state == HalfOpen {
		b.locked(func(context.Context, time.Duration) { state = b.state })
	}
	return state
}
