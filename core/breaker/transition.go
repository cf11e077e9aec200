package breaker

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/gresil/gresil/core"
)

// The lowest bits of Breaker.word are the state. The next is calm: a success
// that is not slow changes nothing but a counter. The one after that: calls are
// timed; in the word of a Permit, that its call is. And aging: the window is one of
// time.
const (
	stateBits = 3
	calm      = 1 << stateBits
	timed     = calm << 1
	aging     = timed << 1
	wordBits  = stateBits + 3
)

func stateOf(word uint64) State { return State(word & (calm - 1)) }

// A change is what is told, in order, after the lock is released.
type change struct {
	ctx      context.Context //nolint:containedctx // on the way from the call to its hook
	reset    bool
	info     StateChangedInfo
	exceeded RateExceededInfo // if Rate is not 0
}

// lock takes the lock, and makes the changes that are due at now.
func (b *Breaker) lock(ctx context.Context, now time.Duration) {
	b.mu.Lock()
	if b.buckets != nil {
		b.buckets.turn(now)
	}
	for {
		switch {
		case b.state == Open && now >= b.until:
			b.to(ctx, HalfOpen, now, false)
		case b.state == HalfOpen && b.rules.cfg.MaxHalfOpen > 0 && now-b.since >= b.rules.cfg.MaxHalfOpen && b.opening != b.generation:
			b.open(ctx, now, 0, false)
		default:
			return
		}
	}
}

// unlock releases the lock, and tells whether announce is to be called.
func (b *Breaker) unlock() (queued bool) {
	queued, b.queued = b.queued, false
	b.mu.Unlock()
	return queued
}

func (b *Breaker) announce(queued bool) {
	if queued {
		b.changes.Drain(func(c change) {
			h := b.hooks.Load()
			switch {
			case c.reset:
				tell(c.ctx, &b.panics, h.Reset, ResetInfo{Name: b.Name(), Key: b.key})
			case c.exceeded.Rate != 0:
				tell(c.ctx, &b.panics, h.RateExceeded, c.exceeded)
			default:
				tell(c.ctx, &b.panics, h.StateChanged, c.info)
			}
		})
	}
}

// open opens the breaker for as long as OpenDelay says, and at least for least.
// It lets go of the lock while it asks; where somebody else changed the state
// meanwhile, that stands. While somebody asks for an earlier call, nobody asks for
// another one, but the longest least holds: the breaker is about to open. Who opens
// it by hand asks for himself, and does not cut that short.
func (b *Breaker) open(ctx context.Context, now, least time.Duration, manual bool) {
	b.publish()
	generation, n, prev, openDelay := b.generation, b.opened+1, b.answered, b.rules.openDelay
	if !manual {
		if b.opening == generation {
			b.least = max(b.least, least)
			return
		}
		b.opening, b.least = generation, least
	}
	b.asking++
	b.mu.Unlock()
	d, returned := DefaultOpenTime, false
	defer func() {
		b.mu.Lock()
		b.asking--
		if b.generation == generation {
			now = max(now, b.now()) // OpenDelay may have taken long
			b.opened, b.openFor, b.answered = n, d, d
			if b.opening == generation {
				b.openFor = max(d, b.least)
			}
			b.to(ctx, Open, now, manual)
		}
		if !returned { // OpenDelay ended its goroutine: nobody goes on from here
			b.announce(b.unlock())
		}
	}()
	d = b.delay(openDelay, n, prev)
	returned = true
}

// to enters another state, and has it announced.
func (b *Breaker) to(ctx context.Context, state State, now time.Duration, manual bool) {
	rates := b.ratesNow()
	info := StateChangedInfo{
		Name: b.Name(), Key: b.key, From: b.state, To: state, Manual: manual,
		FailureRate: rates.failure, SlowRate: rates.slow,
	}
	b.enter(state, now)
	info.Opened = b.opened
	if state == Open {
		info.OpenFor = b.openFor
		b.counters.opened++
	}
	b.queue(change{ctx: ctx, info: info})
}

func (b *Breaker) queue(c change) {
	b.changes.Append(c)
	b.queued = true
}

// enter makes everything as it is at the beginning of a state. Who enters Open has
// set opened and openFor before.
func (b *Breaker) enter(state State, now time.Duration) {
	b.state, b.since = state, now
	b.generation++
	var refusal *OpenError
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
		refusal = &OpenError{wait: cmp.Or(b.openFor, DefaultOpenTime), until: b.base}
		refusal.slot.Store(never)
	case ForcedOpen:
		b.opened, b.openFor, b.answered = 0, 0, 0
		refusal = &OpenError{}
	case Closed, MetricsOnly, Disabled:
		b.opened, b.openFor, b.answered = 0, 0, 0
		b.exceeded = exceeded{}
		if state != Disabled && !b.rules.cfg.JudgeWithHistory {
			b.clearWindow()
		}
	}
	if refusal != nil {
		refusal.Name, refusal.Key, refusal.State, refusal.generation = b.Name(), b.key, state, b.generation
	}
	b.refusal.Store(refusal)
	b.publish()
}

// publish makes the state visible to those who do not take the lock.
func (b *Breaker) publish() {
	word := b.generation<<wordBits | uint64(b.state)
	if b.state == Closed || b.state == MetricsOnly {
		if b.rules.slowCall > 0 {
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

func (b *Breaker) clearWindow() {
	b.ring.clear()
	if b.buckets != nil {
		b.buckets.clear()
	}
}

// window are the calls in the window.
func (b *Breaker) window() *counts {
	if b.buckets != nil {
		return &b.buckets.counts
	}
	return &b.ring.counts
}

// rates are what a state is judged by. They are 0 where they are not known.
type rates struct {
	failure, slow float64
	known         bool
}

func ratesOf(c *counts) rates {
	return rates{failure: rate(c.failures, c.calls), slow: rate(c.slow, c.calls), known: c.calls > 0}
}

func (r *rules) reached(now rates) bool { return now.failure >= r.rate || now.slow >= r.slowRate }

func (b *Breaker) ratesNow() rates {
	w := b.window()
	enough := w.calls >= b.rules.minCalls
	switch {
	case b.state == HalfOpen && (!b.rules.cfg.JudgeWithHistory || !enough):
		return ratesOf(&b.trials.counts)
	case enough:
		return ratesOf(w)
	}
	return rates{}
}

// exceeded is which rates were told of.
type exceeded struct{ failure, slow bool }

// exceed has a rate announced that is reached for the first time.
func (b *Breaker) exceed(ctx context.Context, now rates) {
	check := func(told *bool, slow bool, rate, threshold float64) {
		if !*told && rate >= threshold {
			*told = true
			b.counters.exceeded++
			b.queue(change{ctx: ctx, exceeded: RateExceededInfo{Name: b.Name(), Key: b.key, Slow: slow, Rate: rate, Threshold: threshold}})
		}
	}
	check(&b.exceeded.failure, false, now.failure, b.rules.rate)
	check(&b.exceeded.slow, true, now.slow, b.rules.slowRate)
}

// SetState changes the state by hand. Setting the state that the breaker has
// changes nothing, also not how long it is open. Opened by hand, it is half-open
// when its time is over, as always; [ForcedOpen] stays. Where a failure that asks
// for a time is just about to open it ([Permit.Failed]), it is open at least that
// long. With JudgeWithHistory the window stays when it is closed by hand, too, so that
// the next call may open it again: [Breaker.Reset] empties it. A state that is none is a
// [*core.ConfigError].
func (b *Breaker) SetState(state State) error {
	if state > MetricsOnly {
		return &core.ConfigError{Field: "breaker.Breaker.SetState", Value: state, Reason: "must be a state"}
	}
	ctx, now := context.Background(), b.now()
	for b.lock(ctx, now); b.state != state; {
		if state != Open {
			b.to(ctx, state, now, true)
		} else {
			b.open(ctx, now, 0, true) // where another was faster, again
		}
	}
	b.byHand = true
	b.announce(b.unlock())
	return nil
}

// OpenFor opens the breaker by hand for a time, as when the other side has said
// how long it wants to be left alone. One that is open already will be so for d
// from now. d must be above 0, or the error is a [*core.ConfigError].
func (b *Breaker) OpenFor(d time.Duration) error {
	if d <= 0 {
		return &core.ConfigError{Field: "breaker.Breaker.OpenFor", Value: d, Reason: "must be > 0"}
	}
	ctx, now := context.Background(), b.now()
	b.lock(ctx, now)
	b.openFor = d
	if b.state == Open {
		b.enter(Open, now)
	} else {
		b.opened++
		b.to(ctx, Open, now, true)
	}
	b.announce(b.unlock())
	return nil
}

// Reset empties the window and closes the breaker, as if it were new. Calls that
// are running do not count any more.
func (b *Breaker) Reset() {
	ctx, now := context.Background(), b.now()
	b.lock(ctx, now)
	b.queue(change{ctx: ctx, reset: true})
	if b.state == Closed {
		b.enter(Closed, now)
	} else {
		b.to(ctx, Closed, now, true)
	}
	b.clearWindow()
	b.publish()
	b.announce(b.unlock())
}

// State returns the state. Where time has brought about another one, this is when
// it changes, and is announced.
func (b *Breaker) State() State {
	switch state := stateOf(b.word.Load()); state {
	case Open, HalfOpen:
		b.lock(context.Background(), b.now())
		state = b.state
		b.announce(b.unlock())
		return state
	case Closed, ForcedOpen, Disabled, MetricsOnly:
		return state
	}
	return Closed
}
