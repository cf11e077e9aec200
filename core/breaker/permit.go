package breaker

import (
	"context"
	"log/slog"
	"time"

	"github.com/gresil/gresil/core"
)

// A Permit is an admitted call: end it with one of its methods. Only the goroutine of the call may use it. Ending it a second time, or
// ending the zero Permit, does nothing.
type Permit struct {
	breaker *Breaker
	ctx     context.Context //nolint:containedctx // for observers; a permit is part of one call
	word    uint64          // of the breaker at admission, without calm; has timed if started is set
	started time.Duration
	slow    time.Duration // the SlowCall of this call
}

// Acquire admits a call, or returns an [*OpenError]. It never waits.
func (b *Breaker) Acquire(ctx context.Context) (Permit, error) {
	word := b.word.Load()
	switch stateOf(word) {
	case Closed, MetricsOnly:
		if word&timed != 0 || b.overridden.Load() || b.measured.Load() || b.life.Calls() {
			return Permit{b, ctx, word&^calm | timed, b.now(), b.config(ctx).SlowCall}, nil
		}
		return Permit{breaker: b, ctx: ctx, word: word &^ calm}, nil
	case Disabled:
		return Permit{}, nil
	case Open, HalfOpen, ForcedOpen: // refusal belongs to this state, or to a later one
		if e := b.refusal.Load(); e != nil && e.State != HalfOpen && e.RetryAfter() != 0 {
			return b.reject(ctx, e)
		}
	}
	return b.acquireLocked(ctx)
}

func (b *Breaker) reject(ctx context.Context, e *OpenError) (Permit, error) {
	b.rejected.Inc()
	if b.life.Calls() {
		b.emit(ctx, "circuit breaker rejected a call", true,
			slog.String("state", e.State.String()), slog.Duration("retry_after", e.RetryAfter()))
	}
	return Permit{}, e
}

// acquireLocked does what Acquire does if the call may be a trial, or a change of state may be due.
func (b *Breaker) acquireLocked(ctx context.Context) (Permit, error) {
	slow, now := b.config(ctx).SlowCall, b.now()
	b.lock(ctx, now)
	b.announce(b.unlock()) // before a trial is admitted, since an observer can panic
	b.mu.Lock()
	refusal := b.refusal.Load()
	if b.state == HalfOpen && (b.admitted < b.rules.Trials || b.admitted == b.trials.calls) { // with fewer Trials now, the next one decides
		b.admitted++
		b.latest, refusal = now, nil
	}
	word, state := b.word.Load(), b.state
	b.mu.Unlock()
	if refusal != nil {
		return b.reject(ctx, refusal)
	}
	if state == Disabled {
		return Permit{}, nil
	}
	return Permit{b, ctx, word&^calm | timed, now, slow}, nil
}

// Done ends the call with an outcome. An outcome of core.Ignored is not counted.
func (p *Permit) Done(outcome core.Outcome) { p.done(outcome, 0, 0) }

// Failed ends the call as a core.Failure of an upstream that has asked for a pause. If this failure opens the breaker, it stays open for at
// least that long.
func (p *Permit) Failed(retryAfter time.Duration) { p.done(core.Failure, retryAfter, 0) }

// Trip ends the call as a core.Failure that opens the breaker for d, whatever the rates, such as when the upstream has banned the caller.
// If the failure opens the breaker anyway, it stays open for at least d. Trip does not open a breaker whose state has changed since the
// call was admitted.
func (p *Permit) Trip(d time.Duration) { p.done(core.Failure, 0, d) }

func (p *Permit) done(outcome core.Outcome, least, trip time.Duration) {
	b := p.breaker
	if b == nil {
		return
	}
	if p.breaker = nil; outcome > core.Failure { // of a function of the user
		outcome = core.Ignored
	}
	var now, took time.Duration
	if p.word&timed != 0 {
		now = b.now()
		if took = now - p.started; b.measured.Load() {
			b.durations[outcome].Observe(took)
		}
	}
	slow := p.slow > 0 && took > p.slow
	switch {
	case b.life.Calls():
	case outcome == core.Success && !slow && (b.word.Load()^p.word)&^timed == calm && b.beforeEnd(&now):
		b.calm.Inc()
		return
	case outcome == core.Ignored && stateOf(p.word) != HalfOpen:
		b.ignored.Add(1)
		return
	}
	b.record(p, outcome, slow, now, took, least, trip)
}

// beforeEnd reports whether now is before the end of calm. If that depends on now, and now is 0, it reads the clock.
func (b *Breaker) beforeEnd(now *time.Duration) bool {
	until := b.until.Load()
	if *now == 0 && until != forever {
		*now = b.now()
	}
	return int64(*now) < until
}

// record counts a call, makes the change of state that follows from it, and emits its event. A call of an earlier state is ignored. now is
// 0 if the clock was not read.
func (b *Breaker) record(p *Permit, outcome core.Outcome, slow bool, now, took, least, trip time.Duration) {
	if now == 0 && b.life.Load().Settings.WindowTime > 0 {
		now = b.now()
	}
	b.lock(p.ctx, now)
	if late := p.word>>wordBits != b.generation; late || outcome == core.Ignored {
		if outcome = core.Ignored; !late {
			b.admitted-- // it matters while half-open only
		}
		b.ignored.Add(1)
	} else {
		b.count(outcome == core.Failure, slow)
		if b.state != MetricsOnly && (trip > 0 || !b.far()) {
			b.decide(p.ctx, min(least, b.rules.MaxRetryAfter), min(trip, b.rules.MaxRetryAfter))
		}
		b.publish()
	}
	queued := b.unlock()
	if b.life.Calls() {
		b.emit(p.ctx, "circuit breaker recorded a call", true, slog.String("state", stateOf(p.word).String()),
			slog.String("outcome", outcome.String()), slog.Duration("duration", took), slog.Bool("slow", slow))
	}
	b.announce(queued)
}

// count adds a call to the counters, and to the trials or the window.
func (b *Breaker) count(failed, slow bool) {
	if failed {
		b.row = max(0, b.row) + 1
	} else {
		b.row = min(0, b.row) - 1
	}
	b.total.add(failed, slow, 1)
	switch {
	case b.state == HalfOpen:
		b.trials.add(failed, slow, 1)
	case b.buckets != nil:
		b.buckets.add(failed, slow)
	default:
		b.ring.add(failed, slow)
	}
}
