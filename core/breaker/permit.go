package breaker

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
)

// A Permit is an admitted call: end it by one of its methods. It is a value for the goroutine of the call. A second end does
// nothing, nor does one of the zero Permit.
type Permit struct {
	breaker *Breaker
	ctx     context.Context //nolint:containedctx // for observers; a permit is part of one call
	word    uint64          // of the breaker at admission, without calm; timed if started is known
	started time.Duration
	slow    time.Duration // the SlowCall of this call
}

// Acquire admits a call, or returns an [*OpenError]. It never waits.
func (b *Breaker) Acquire(ctx context.Context) (Permit, error) {
	word := b.word.Load()
	switch stateOf(word) {
	case Closed, MetricsOnly:
		if word&timed != 0 || b.life.Calls() {
			return Permit{breaker: b, ctx: ctx, word: word&^calm | timed, started: b.now(), slow: b.config(ctx).SlowCall}, nil
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
	b.rejected.Inc()
	b.emitRejected(ctx, e)
	return Permit{}, e
}

// acquireLocked is Acquire for a call that may be a trial, or if a change of state is due.
func (b *Breaker) acquireLocked(ctx context.Context) (Permit, error) {
	slow, now := b.config(ctx).SlowCall, b.now()
	b.lock(ctx, now)
	p := Permit{breaker: b, ctx: ctx, word: b.word.Load()&^calm | timed, started: now, slow: slow}
	refusal := b.refusal.Load()
	switch b.state {
	case HalfOpen:
		if b.admitted < b.rules.Trials {
			b.admitted++
			b.latest, refusal = now, nil
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

// announceBefore announces changes before p is returned. If an observer panics, there is no call, and its trial can be another.
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

// Done ends the call. core.Ignored is not counted.
func (p *Permit) Done(outcome core.Outcome) { p.done(outcome, 0, 0) }

// Failed ends the call as a core.Failure of an upstream that has asked for a pause. If this failure opens the breaker, it is open for
// at least that long.
func (p *Permit) Failed(retryAfter time.Duration) { p.done(core.Failure, retryAfter, 0) }

// Trip ends the call as a core.Failure that opens the breaker for d, whatever the rates, as if the upstream has banned the caller. If
// the breaker opens in any case, and while half-open, it is open for at least that long.
func (p *Permit) Trip(d time.Duration) { p.done(core.Failure, 0, d) }

func (p *Permit) done(outcome core.Outcome, least, trip time.Duration) {
	b := p.breaker
	if b == nil {
		return
	}
	p.breaker = nil
	recorded := b.life.Calls()
	if p.word&timed != 0 {
		if d := b.durations.Load(); d != nil {
			d.observe(outcome, b.now()-p.started)
		}
	}
	switch {
	case outcome == core.Success:
		if !recorded && b.word.Load() == p.word|calm && (p.slow == 0 || b.now()-p.started <= p.slow) {
			b.calm.Inc()
			return
		}
	case outcome != core.Failure:
		outcome = core.Ignored
		if !recorded && stateOf(p.word) != HalfOpen {
			b.ignored.Add(1)
			return
		}
	}
	b.record(p, outcome, least, trip, recorded)
}

// record counts a call, unless its state is over, and makes the change of state that follows from it. The clock is read only if the
// result depends on it.
func (b *Breaker) record(p *Permit, outcome core.Outcome, least, trip time.Duration, recorded bool) {
	var now time.Duration
	if p.word&(timed|aging) != 0 {
		now = b.now()
	}
	b.mu.Lock()
	if stateOf(p.word) == HalfOpen || (b.word.Load()^p.word)&^(calm|timed) != 0 {
		if now == 0 {
			now = b.now() // the state or the Config has changed
		}
		if b.advance(p.ctx, now); p.word>>wordBits != b.generation {
			b.ignored.Add(1)
			b.announce(b.unlock())
			return
		}
	}
	slow := p.slow > 0 && now-p.started > p.slow
	if outcome == core.Ignored {
		b.ignored.Add(1)
		if b.admitted--; b.buckets != nil { // while half-open; otherwise admitted means nothing
			b.buckets.turn(now) // for the rates
		}
	} else {
		b.count(now, outcome == core.Failure, slow)
	}
	var c counts
	if recorded {
		c = b.rates()
	}
	switch {
	case outcome == core.Ignored:
	case b.state == Closed && trip <= 0 && b.far(): // most failures of a service that works
		b.publish()
	default:
		b.decide(p.ctx, now, min(least, b.rules.MaxRetryAfter), min(trip, b.rules.MaxRetryAfter))
	}
	if !recorded && !b.queued { // no defer for them
		b.mu.Unlock()
		return
	}
	queued := b.unlock()
	defer b.announce(queued)
	if recorded {
		b.emitRecorded(p, outcome, slow, now, c)
	}
}

// count adds a call to the counters, and to the trials or the window.
func (b *Breaker) count(now time.Duration, failed, slow bool) {
	if slow {
		b.slow++
	}
	if failed {
		b.failed++
		b.row++
	} else {
		b.succeeded++
		b.row = 0
	}
	switch {
	case b.state == HalfOpen:
		b.trials.calls++
		b.trials.add(failed, slow, 1)
	case b.buckets != nil:
		b.buckets.add(now, failed, slow)
	default:
		b.ring.add(failed, slow)
	}
}
