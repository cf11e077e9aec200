package breaker

import "context"

// window returns the counts of the window.
func (b *Breaker) window() *counts {
	if b.buckets != nil {
		return &b.buckets.counts
	}
	return &b.ring.counts
}

func (b *Breaker) clearWindow() {
	b.ring.clear()
	if b.buckets != nil {
		b.buckets.clear()
	}
}

// reached reports whether the calls in a window reach the failure threshold or the
// slow call rate.
func (r *rules) reached(c *counts) (failing, slow bool) {
	if c.failures+c.slow == 0 {
		return false, false
	}
	failing = c.failures >= r.failures
	if c.calls >= r.MinCalls {
		failing = failing || rate(c.failures, c.calls) >= r.rate
		slow = rate(c.slow, c.calls) >= r.slowRate
	}
	return failing, slow
}

// far reports whether a window has certainly too few failures and slow calls for any
// threshold.
func (r *rules) far(c *counts) bool {
	return c.failures < r.failures && (c.failures < r.fewest || below(c.failures, r.rate, c.calls)) &&
		(c.slow < r.fewestSlow || below(c.slow, r.slowRate, c.calls))
}

// below reports whether n of the calls are certainly fewer than a rate, whatever the rounding.
func below(n int, rate float64, calls int) bool { return float64(n) < rate*float64(calls)*(1-1e-9) }

// certain reports whether the outstanding trials can no longer change the decision, and
// if so, whether the trials have failed.
func (b *Breaker) certain() (failed, certain bool) {
	r, ended, more := b.rules, b.trials.counts, len(b.trials.slots)-b.trials.calls
	if r.TrialRule == AllMustSucceed {
		failed = ended.failures+ended.slow > 0
		return failed, failed || more == 0
	}
	if r.JudgeWithHistory {
		window, with := *b.window(), more
		switch {
		case b.buckets == nil:
			with = min(more, b.ring.size)
			window.minus(b.ring.oldest(window.calls + with - b.ring.size))
		case more > 0: // calls might expire before the trials end
			return false, false
		}
		if window.calls+with >= r.MinCalls {
			ended, more = window, with
		}
	}
	all := ended.calls + more
	if rate(ended.failures, all) >= r.trialRate || rate(ended.slow, all) >= r.slowRate {
		return true, true
	}
	return false, rate(ended.failures+more, all) < r.trialRate && rate(ended.slow+more, all) < r.slowRate
}

// exceeded marks the thresholds that were announced while MetricsOnly.
type exceeded struct{ failing, slow bool }

// exceed announces each threshold when it is reached for the first time.
func (b *Breaker) exceed(ctx context.Context) {
	failing, slow := b.rules.reached(b.window())
	if failing && !b.exceeded.failing {
		b.exceeded.failing = true
		b.announceExceeded(ctx)
	}
	if slow && !b.exceeded.slow {
		b.exceeded.slow = true
		b.announceExceeded(ctx)
	}
}

func (b *Breaker) announceExceeded(ctx context.Context) {
	rates := b.ratesNow()
	b.counters.Exceeded++
	b.queue(change{ctx: ctx, text: "circuit breaker would have opened", rates: rates})
}

// rates are the rates that decide in the current state, or 0 if they are not known.
type rates struct {
	failure, slow float64
	known         bool
}

func ratesOf(c *counts) rates {
	return rates{failure: rate(c.failures, c.calls), slow: rate(c.slow, c.calls), known: c.calls > 0}
}

func (b *Breaker) ratesNow() rates {
	w := b.window()
	enough := w.calls >= b.rules.MinCalls
	switch {
	case b.state == HalfOpen && (!b.rules.JudgeWithHistory || !enough):
		return ratesOf(&b.trials.counts)
	case enough:
		return ratesOf(w)
	}
	return rates{}
}
