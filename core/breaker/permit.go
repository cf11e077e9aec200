package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
)

// A Permit is a call that was admitted. Call one of its methods exactly once, when
// the call has ended. A Permit is a value for the goroutine that makes the call; a
// second Done of the same variable does nothing, nor does one of the zero Permit.
type Permit struct {
	breaker *Breaker
	ctx     context.Context //nolint:containedctx // for the hooks; a permit is part of one call
	word    uint64          // of the breaker when it was admitted, without calm; timed when started is known
	trial   uint64          // its slot when half-open, 0 else
	started time.Duration
}

// Acquire admits a call, or returns an [*OpenError], the same for the whole time
// that the breaker is open. It never waits. ctx is for the hooks only: that it is
// done does not matter.
func (b *Breaker) Acquire(ctx context.Context) (Permit, error) {
	word := b.word.Load()
	switch stateOf(word) {
	case Closed, MetricsOnly:
		if word&timed != 0 || b.hooks.Load().Recorded != nil {
			return Permit{breaker: b, ctx: ctx, word: word&^calm | timed, started: b.now()}, nil
		}
		return Permit{breaker: b, ctx: ctx, word: word &^ calm}, nil
	case Disabled:
		return Permit{}, nil
	case Open:
		if e := b.refusal.Load(); e != nil && e.generation == word>>wordBits && b.now() < e.over {
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
	if h := b.hooks.Load(); h.Rejected != nil {
		tell(ctx, &b.panics, h.Rejected, RejectedInfo{Name: e.Name, Key: e.Key, State: e.State, Err: e})
	}
	return Permit{}, e
}

// acquireLocked is Acquire where time may have brought about another state, or a
// slot is needed.
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
	case Closed, MetricsOnly, Open, ForcedOpen: // the last two have a refusal, the others none
	}
	if queued := b.unlock(); queued {
		b.announceBefore(&p)
	}
	if refusal != nil {
		return b.reject(ctx, refusal)
	}
	return p, nil
}

// announceBefore announces before p is returned. If a hook ends the goroutine, there is no
// call, and a trial returns its slot.
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

// Done ends the call. [core.Ignored], or what is no outcome, says nothing about
// what was called; a trial then gives its slot back.
func (p *Permit) Done(outcome core.Outcome) { p.done(outcome, 0, 0) }

// Failed ends the call as a [core.Failure] of something that asks to be left alone
// for a while, as by a Retry-After. If this failure opens the breaker, it is open
// at least that long.
func (p *Permit) Failed(retryAfter time.Duration) { p.done(core.Failure, retryAfter, 0) }

// Trip ends the call as a [core.Failure] that opens the breaker for d, whatever its
// rates, as when the caller was banned. Where this failure opens the breaker by its
// rates too, or while half-open, it is open as after any other, at least for d: so
// OpenDelay grows as always. It is no more than a failure where d is not above 0,
// while MetricsOnly, and when the call is too late to count.
func (p *Permit) Trip(d time.Duration) { p.done(core.Failure, 0, max(0, d)) }

func (p *Permit) done(outcome core.Outcome, least, trip time.Duration) {
	b := p.breaker
	if b == nil {
		return
	}
	p.breaker = nil
	recorded := b.hooks.Load().Recorded
	switch {
	case outcome != core.Success && outcome != core.Failure:
		outcome = core.Ignored
		if recorded == nil && p.trial == 0 && b.word.Load()>>wordBits == p.word>>wordBits {
			b.counters.ignored.Add(1)
			return
		}
	case outcome == core.Success && recorded == nil && b.word.Load() == p.word|calm &&
		(p.word&timed == 0 || b.now()-p.started <= b.current.Load().slowCall):
		b.counters.calm.Inc()
		return
	case recorded == nil && trip == 0 && stateOf(p.word) == Closed && b.recordClosed(p, outcome == core.Failure, least):
		return
	}
	ended, queued := b.record(p, outcome, least, trip)
	defer b.announce(queued) // also where the hook ends its goroutine
	if recorded != nil && ended.counts {
		tell(p.ctx, &b.panics, recorded, RecordedInfo{
			Name: b.Name(), Key: b.key, State: stateOf(p.word),
			Outcome: outcome, Slow: ended.slow, FailureRate: ended.rates.failure, SlowRate: ended.rates.slow, Duration: ended.duration,
		})
	}
}

// An ended call is what there is to tell of it.
type ended struct {
	counts   bool // it was not too late
	slow     bool
	rates    rates
	duration time.Duration
}

// recordClosed is record for a call of a closed breaker that nobody observes; it is
// false, and has done nothing, where the state is another one by now. What record has to
// tell costs half of its time.
func (b *Breaker) recordClosed(p *Permit, failed bool, least time.Duration) bool {
	var now time.Duration
	if p.word&(timed|aging) != 0 {
		now = b.now()
	}
	b.mu.Lock()
	if b.word.Load()&^calm != p.word {
		b.mu.Unlock()
		return false
	}
	b.count(now, failed, p.word&timed != 0 && now-p.started > b.rules.slowCall)
	if w := b.window(); w.failures+w.slow > 0 && w.calls >= b.rules.minCalls && b.rules.reached(ratesOf(w)) {
		b.open(p.ctx, b.now(), least, false)
		b.announce(b.unlock())
		return true
	}
	b.publish()
	b.mu.Unlock()
	return true
}

// record counts a call, unless it was admitted in an earlier state, and makes the
// change of state that follows.
func (b *Breaker) record(p *Permit, outcome core.Outcome, least, trip time.Duration) (call ended, queued bool) {
	now, known := time.Duration(0), p.word&(timed|aging) != 0 || p.trial != 0 || p.word != b.word.Load()&^calm
	if known {
		now = b.now()
		b.lock(p.ctx, now)
	} else {
		b.mu.Lock()           // closed, so that nothing is due
		if b.buckets != nil { // by now
			now, known = b.now(), true
		}
	}
	if p.word>>wordBits != b.generation || p.trial != 0 && !b.trials.release(p.trial, now, b.rules.trialTimeout) {
		b.counters.late++
		return ended{}, b.unlock()
	}
	call.counts = true
	if p.word&timed != 0 {
		call.duration = now - p.started
		call.slow = b.rules.slowCall > 0 && call.duration > b.rules.slowCall
	}
	if outcome == core.Ignored {
		b.counters.ignored.Add(1)
	} else {
		b.count(now, outcome == core.Failure, call.slow)
	}
	call.rates = b.ratesNow()
	to, tripped := b.verdict(call.rates), trip > 0 && b.state != MetricsOnly
	if tripped && (b.state == HalfOpen || b.opening == b.generation) {
		to = Open // by OpenDelay, as the failures do that it belongs to
	}
	if (to == Open || tripped) && !known {
		now = b.now()
	}
	switch {
	case outcome == core.Ignored:
	case to == Open:
		b.open(p.ctx, now, max(least, trip), false)
	case tripped:
		b.openFor = trip
		b.opened++
		b.to(p.ctx, Open, now, false)
	case to != b.state:
		b.to(p.ctx, to, now, false)
	case b.state == MetricsOnly:
		b.exceed(p.ctx, call.rates)
		b.publish()
	default:
		b.publish()
	}
	return call, b.unlock()
}

func (b *Breaker) count(now time.Duration, failed, slow bool) {
	if failed {
		b.counters.failures++
	} else {
		b.counters.successes++
	}
	switch {
	case slow && failed:
		b.counters.slowFailures++
	case slow:
		b.counters.slowSuccesses++
	}
	if b.state == HalfOpen {
		b.trials.add(failed, slow)
		if !b.rules.cfg.JudgeWithHistory {
			return
		}
	}
	if b.buckets != nil {
		b.buckets.add(now, failed, slow)
	} else {
		b.ring.add(failed, slow)
	}
}

// verdict is the state that follows a call that was counted.
func (b *Breaker) verdict(now rates) State {
	switch b.state {
	case Closed:
		if b.rules.reached(now) {
			return Open
		}
	case HalfOpen:
		switch reached, certain := b.certain(); {
		case certain && reached:
			return Open
		case certain:
			return Closed
		}
	case Open, ForcedOpen, Disabled, MetricsOnly:
	}
	return b.state
}

// certain tells whether the trials that are still to end can no longer change
// whether a rate is reached, and if so, whether one is.
func (b *Breaker) certain() (reached, certain bool) {
	ended, more := b.trials.counts, len(b.trials.slots)-b.trials.calls
	if b.rules.cfg.JudgeWithHistory {
		window, with := *b.window(), more
		switch {
		case b.buckets == nil:
			with = min(more, b.ring.size)
			window.minus(b.ring.oldest(window.calls + with - b.ring.size))
		case more > 0: // nobody knows what is in it by then
			return false, false
		}
		if window.calls+with >= b.rules.minCalls {
			ended, more = window, with
		}
	}
	r, all := b.rules, ended.calls+more
	if rate(ended.failures, all) >= r.rate || rate(ended.slow, all) >= r.slowRate {
		return true, true
	}
	return false, rate(ended.failures+more, all) < r.rate && rate(ended.slow+more, all) < r.slowRate
}
