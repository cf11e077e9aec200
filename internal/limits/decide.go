package limits

import (
	"math"
	"slices"
	"time"
)

// Apply does an operation at the time of the key, and reports whether it has changed the account: by a
// charge, or by a refusal if a limit got its count by it.
func (k *Key) Apply(p *Plan, op *Op) (r Result, changed bool) {
	switch op.Kind {
	case Refund:
		changed, op = k.refund(k.Now, op), &Op{}
	case Reset:
		k.Account, changed, op = Account{}, true, &Op{}
	case Take, TakeAtMost, Reserve, Check, Drain:
	}
	k.Changed = k.Changed || changed
	r, charged := k.operate(p, op)
	return r, changed || charged
}

// operate does an operation that takes permits or looks.
func (k *Key) operate(p *Plan, op *Op) (r Result, changed bool) {
	if looks(op) {
		b := *k
		b.carry(p, k.Now)
		b.decide(p, op, &r)
		return r, false
	}
	k.carry(p, k.Now)
	changed = k.decide(p, op, &r) || k.added && !k.Over(k.Now)
	if changed {
		k.Changed = true
		for i := range k.n {
			c := &k.counts[i]
			c.Joined = len(p.Rules) > 1 && slices.Contains(p.Rules, c.Rule)
		}
	}
	return r, changed
}

// decide decides under a plan that is in force, and reports whether permits were taken.
func (k *Key) decide(p *Plan, op *Op, r *Result) (changed bool) {
	cost := op.Cost
	if op.Kind == TakeAtMost || op.Kind == Drain {
		cost = 1
	}
	var room [MaxLimits]Raw
	raws := room[:len(p.Rules)]
	k.look(p, cost, raws)
	granted, at := k.grant(p, op, raws)
	if granted > 0 {
		k.charge(p, raws, granted, at, &r.Receipt)
		k.look(p, 0, raws)
	}
	r.Receipt.At = k.Now
	p.result(k.Now, op, granted, at, raws, r)
	return granted > 0
}

// look reads the counts of the limits of a plan, for a cost.
func (k *Key) look(p *Plan, cost int64, to []Raw) {
	for i, rule := range p.Rules {
		to[i] = rule.alg.look(k.find(rule.ID).State, k.Now, cost)
	}
}

// grant returns how many permits an operation takes of each limit, or -1 if it is refused, and the time
// at which they can be used.
func (k *Key) grant(p *Plan, op *Op, raws []Raw) (permits, at int64) {
	permits = op.Cost
	if op.Kind == TakeAtMost || op.Kind == Drain {
		if op.Kind == Drain {
			permits = math.MaxInt64
		}
		for i, rule := range p.Rules {
			permits = min(permits, rule.alg.available(raws[i], k.Now))
		}
		if permits == 0 && op.Cost > 0 {
			return -1, k.Now
		}
		return permits, k.Now
	}
	switch {
	case permits > p.Capacity:
		return -1, k.Now
	case permits == 0:
		return 0, k.Now
	}
	wait, _ := p.wait(raws, k.Now, permits)
	at = k.Now + int64(wait)
	switch {
	case wait > 0 && (op.Kind != Reserve || wait > op.MaxWait || !k.fits(p, at, permits)):
		return -1, at
	case op.Kind == Check:
		return 0, at
	}
	return permits, at
}

// fits reports whether permits can be reserved for a time.
func (k *Key) fits(p *Plan, at, permits int64) bool {
	return !slices.ContainsFunc(p.Rules, func(r *Rule) bool { return !r.alg.fits(k.find(r.ID).State, k.Now, at, permits) })
}

// charge charges permits that can be used at a time to all counts.
func (k *Key) charge(p *Plan, raws []Raw, permits, at int64, to *Receipt) {
	if at > k.Now {
		more := MoreOf(to)
		for i, rule := range p.Rules {
			s := rule.alg.touch(k.find(rule.ID).State, k.Now)
			more.Before[i] = s.Word + s.Moved
		}
	}
	for i := range k.n {
		c := &k.counts[i]
		c.Short = c.Short && !c.over(k.Now)
	}
	for i, rule := range p.Rules {
		c, own := k.find(rule.ID), rule.alg.earliest(raws[i], k.Now, permits)
		to.Plans[i] = rule.ID
		c.State, to.Parts[i] = rule.alg.charge(c.State, k.Now, own, at, permits)
	}
	if k.n == len(p.Rules) {
		return // all counts are of limits in force
	}
	for i := range k.n {
		c := &k.counts[i]
		if slices.Contains(p.Rules, c.Rule) {
			continue
		}
		c.Short = c.Short || c.Rule.Capacity-c.Rule.used(c.State, k.Now) < permits
		if receipt, taken := c.charge(k.Now, permits); taken > 0 {
			Keep(to, Kept{c.Rule.ID, receipt, taken})
		}
	}
}

// Result is how an operation was decided that took so many permits, which can be used at a time; or,
// if it took -1, that was refused. The raws are how the key stands after it, read for the cost.
func (p *Plan) Result(now int64, op *Op, granted, at int64, raws []Raw) (r Result) {
	p.result(now, op, granted, at, raws, &r)
	return r
}

func (p *Plan) result(now int64, op *Op, granted, at int64, raws []Raw, r *Result) {
	r.Allowed, r.Plan = true, p.ID
	switch cost := op.Cost; {
	case cost > p.Capacity && op.Kind != TakeAtMost && op.Kind != Drain:
		r.Allowed, r.RetryAfter = false, Never
	case granted < 0:
		if op.Kind == TakeAtMost || op.Kind == Drain {
			cost = 1
		}
		r.Allowed = false
		r.RetryAfter, r.Which = p.wait(raws, now, cost)
	default:
		r.Permits, r.Wait = granted, time.Duration(at-now)
	}
	p.report(raws, now, r)
}

// wait returns how long a cost has to wait, and for which limit.
func (p *Plan) wait(raws []Raw, now, cost int64) (longest time.Duration, which int) {
	for i, rule := range p.Rules {
		if after := time.Duration(rule.alg.earliest(raws[i], now, cost) - now); after > longest {
			longest, which = after, i
		}
	}
	return longest, which
}

// report says how the limit that counts stands: of a refusal the one that was found already,
// otherwise the one with least remaining; of those, the one that has its next permit last.
func (p *Plan) report(raws []Raw, now int64, r *Result) {
	if len(p.Rules) > 1 && (r.Allowed || r.RetryAfter == Never) {
		least := int64(math.MaxInt64)
		for i, rule := range p.Rules {
			n := rule.Capacity // a limit that is too small for the cost
			if r.RetryAfter != Never {
				n = rule.alg.available(raws[i], now)
			}
			if n < least || n == least && rule.nextAfter(raws[i], now, n) > p.Rules[r.Which].nextAfter(raws[r.Which], now, n) {
				r.Which, least = i, n
			}
		}
	}
	p.Rules[r.Which].Report(raws[r.Which], now, r)
}

// looks reports whether an operation takes nothing.
func looks(op *Op) bool {
	return op.Kind == Check || op.Cost == 0 && (op.Kind == Take || op.Kind == TakeAtMost || op.Kind == Reserve)
}

// refund gives back the permits of a take that have not come back with time.
func (a *Account) refund(now int64, op *Op) (changed bool) {
	take := &op.Receipt
	more, _ := take.More.(*More)
	reserved := more != nil && more.Before != [MaxLimits]uint64{}
	for i, id := range take.Plans {
		c := a.find(id)
		if c == nil || (now-take.At)/5 > c.Rule.Horizon {
			continue // it has recovered, and its word means nothing any more
		}
		if reserved && !c.Short && !c.Rule.Listed() && c.Word+c.Moved == take.Parts[i] {
			c.Word, changed = more.Before[i]-c.Moved, true // nothing has come since
			continue
		}
		changed = c.refund(now, op.Cost, take.Parts[i], take.At) || changed
	}
	if more != nil {
		for _, k := range more.Kept {
			if c := a.find(k.Rule); c != nil && (now-take.At)/5 <= c.Rule.Horizon {
				changed = c.refund(now, min(k.Cost, op.Cost), k.Receipt, take.At) || changed
			}
		}
	}
	return changed
}

func (c *Count) refund(now, cost int64, receipt uint64, taken int64) (changed bool) {
	if c.Short {
		return false
	}
	c.State, changed = c.Rule.alg.refund(c.State, now, cost, receipt, taken)
	return changed
}
