package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
)

// A Permit is an admitted call. Call one of its methods exactly once, when the call has
// ended. A Permit is a value for the goroutine that makes the call: a second Done of the
// same variable does nothing, nor does Done of the zero Permit.
type Permit struct {
	breaker *Breaker
	ctx     context.Context //nolint:containedctx // for the hooks; a permit is part of one call
	word    uint64          // of the breaker at admission, without calm; timed if started is known
	trial   uint64          // its slot while half-open, otherwise 0
	started time.Duration
}

// Acquire admits a call or returns an [*OpenError], the same one for the whole time that
// the breaker is open. It never waits. ctx is only passed to the hooks: Acquire ignores
// its end.
func (b *Breaker) Acquire(ctx context.Context) (Permit, error) {
	word := b.word.Load()
	switch stateOf(word) {
	case Closed, MetricsOnly:
		if word&timed != 0 || b.life.Hooks().Recorded != nil {
			return Permit{breaker: b, ctx: ctx, word: word&^calm | timed, started: b.now()}, nil
		}
		return Permit{breaker: b, ctx: ctx, word: word &^ calm}, nil
	case Disabled:
		return Permit{}, nil
	case Open:
		if e := b.refusal.Load(); e != nil && b.now() < e.over { // that of the word, or of a later state that is open
			return b.reject(ctx, e)
		}
	case ForcedOpen:
		if e := b.refusal.Load(); e != nil && e.generation == word>>wordBits {
			return b.reject(ctx, e)
		}
	case HalfOpen:
	}
	return b.acquireLocked(ctx)
}

func (b *Breaker) reject(ctx context.Context, e *OpenError) (Permit, error) {
	b.counters.rejected.Inc()
	if rejected := b.life.Hooks().Rejected; rejected != nil {
		b.call(ctx, rejected, &Info{State: e.State, Err: e})
	}
	return Permit{}, e
}

// acquireLocked is Acquire for a call that needs a slot, or if a change of state is due.
func (b *Breaker) acquireLocked(ctx context.Context) (Permit, error) {
	now := b.now()
	b.lock(ctx, now)
	p := Permit{breaker: b, ctx: ctx, word: b.word.Load()&^calm | timed, started: now}
	refusal := b.refusal.Load()
	switch b.state {
	case HalfOpen:
		var until time.Duration
		if p.trial, until = b.trials.reserve(now, b.rules.trialTimeout); p.trial != 0 {
			refusal = nil
		} else {
			refusal.slot.Store(int64(until))
		}
	case Disabled:
		p = Permit{}
	case Closed, MetricsOnly, Open, ForcedOpen: // the last two have a refusal, the others have none
	}
	if queued := b.unlock(); queued {
		b.announceBefore(&p)
	}
	if refusal != nil {
		return b.reject(ctx, refusal)
	}
	return p, nil
}

// announceBefore announces changes before p is returned. If a hook ends the goroutine,
// there is no call, and a trial returns its slot.
func (b *Breaker) announceBefore(p *Permit) {
	returned := false
	defer func() {
		if !returned {
			p.Done(core.Ignored)
		}
	}()
	b.announce(true)
	returned = true
}

// Done ends the call. [core.Ignored], or a value that is no outcome, is not counted; a
// trial then returns its slot.
func (p *Permit) Done(outcome core.Outcome) { p.done(outcome, 0, 0) }

// Failed ends the call as a [core.Failure] of an upstream that asked for a pause, as with
// a Retry-After. If this failure opens the breaker, it stays open at least that long,
// and if that is longer than OpenDelay, the random part of OpenDelay comes on top.
func (p *Permit) Failed(retryAfter time.Duration) { p.done(core.Failure, retryAfter, 0) }

// Trip ends the call as a [core.Failure] that opens the breaker for d, whatever its
// rates, as when the upstream has banned the caller. If this failure opens the breaker
// by its rates too, or while half-open, the breaker opens for the result of OpenDelay,
// and at least for d: so OpenDelay grows as usual. Trip is a plain failure if d is not
// positive, and while MetricsOnly. Of a call that ends too late to count it opens the breaker
// too, unless that has opened since the call was admitted.
func (p *Permit) Trip(d time.Duration) { p.done(core.Failure, 0, max(0, d)) }

func (p *Permit) done(outcome core.Outcome, least, trip time.Duration) {
	b := p.breaker
	if b == nil {
		return
	}
	p.breaker = nil
	recorded := b.life.Hooks().Recorded
	switch {
	case outcome == core.Success:
		if recorded == nil && b.word.Load() == p.word|calm &&
			(p.word&timed == 0 || b.now()-p.started <= b.life.Load().Settings.SlowCall) {
			b.counters.calm.Inc()
			return
		}
	case outcome != core.Failure:
		outcome = core.Ignored
		if recorded == nil && p.trial == 0 && b.word.Load()>>wordBits == p.word>>wordBits {
			b.counters.ignored.Add(1)
			return
		}
	}
	b.record(p, outcome, least, trip, recorded)
}

// record counts a call, unless it ends too late, and makes the change of state that
// follows from it. The clock is read only if the result depends on it.
func (b *Breaker) record(p *Permit, outcome core.Outcome, least, trip time.Duration, recorded func(context.Context, Info)) {
	var now time.Duration
	if p.word&(timed|aging) != 0 {
		now = b.now()
	}
	b.mu.Lock()
	if p.trial != 0 || (b.word.Load()^p.word)&^(calm|timed) != 0 {
		if now == 0 {
			now = b.now() // the state or the Config has changed
		}
		if b.late(p, now) {
			if trip > 0 && p.word>>wordBits > b.opening && b.state != MetricsOnly {
				b.decide(p.ctx, now, least, trip)
			}
			b.announce(b.unlock())
			return
		}
	}
	slow := p.word&timed != 0 && b.rules.SlowCall > 0 && now-p.started > b.rules.SlowCall
	if outcome == core.Ignored {
		b.counters.ignored.Add(1)
		if b.buckets != nil {
			b.buckets.turn(now) // for the rates
		}
	} else {
		b.count(now, outcome == core.Failure, slow)
	}
	var rates rates
	if recorded != nil {
		rates = b.ratesNow()
	}
	switch {
	case outcome == core.Ignored:
	case b.state == Closed && trip <= 0 && b.rules.far(b.window()): // BenchmarkClosedOneInFifty
		b.publish()
	default:
		b.decide(p.ctx, now, least, trip)
	}
	if recorded == nil && !b.queued { // BenchmarkClosedOneInFifty
		b.mu.Unlock()
		return
	}
	queued := b.unlock()
	if recorded == nil {
		b.announce(queued)
		return
	}
	info := Info{State: stateOf(p.word), Outcome: outcome, Slow: slow, FailureRate: rates.failure, SlowRate: rates.slow}
	if p.word&timed != 0 {
		info.Duration = now - p.started
	}
	b.callRecorded(p.ctx, recorded, &info, queued)
}

// late reports whether p does not count, because its state or its trial is over.
func (b *Breaker) late(p *Permit, now time.Duration) bool {
	b.advance(p.ctx, now)
	if p.word>>wordBits != b.generation || p.trial != 0 && !b.trials.release(p.trial, now, b.rules.trialTimeout) {
		b.counters.Late++
		return true
	}
	return false
}

// callRecorded calls the hook, and then announces the changes that the call caused, even
// if the hook ends its goroutine.
func (b *Breaker) callRecorded(ctx context.Context, recorded func(context.Context, Info), info *Info, queued bool) {
	defer b.announce(queued)
	b.call(ctx, recorded, info)
}

// count adds a call to the counters, and to the trials or the window.
func (b *Breaker) count(now time.Duration, failed, slow bool) {
	c := &b.counters
	calls, slowCalls := &c.Successes, &c.SlowSuccesses
	if failed {
		calls, slowCalls = &c.Failures, &c.SlowFailures
	}
	*calls++
	if slow {
		*slowCalls++
	}
	if b.state == HalfOpen {
		b.trials.add(failed, slow)
		if !b.rules.JudgeWithHistory {
			return
		}
	}
	if b.buckets != nil {
		b.buckets.add(now, failed, slow)
	} else {
		b.ring.add(failed, slow)
	}
}
