package limits

import (
	"math"
	"slices"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// Apply does an operation on a key, and reports whether the account must be written: after a
// charge, and if a limit got its count by a refusal.
func (a *Account) Apply(p *Plan, now int64, op *driver.Op) (r driver.Result, changed bool) {
	switch op.Kind {
	case driver.Refund:
		changed = a.refund(now, op)
	case driver.Reset:
		*a, changed = Account{}, true
	case driver.Take, driver.TakeAtMost, driver.Reserve, driver.Check, driver.Drain:
		return a.operate(p, now, op, false)
	}
	r, _ = a.operate(p, now, &driver.Op{}, false)
	return r, changed
}

// Serve takes permits that were waited for.
func (a *Account) Serve(p *Plan, now, cost int64) (driver.Result, bool) {
	return a.operate(p, now, &driver.Op{Cost: cost}, true)
}

func (a *Account) operate(p *Plan, now int64, op *driver.Op, waited bool) (r driver.Result, changed bool) {
	if looks(op) {
		b := *a
		b.carry(p, now)
		b.decide(p, now, op, waited, &r)
		return r, false
	}
	a.carry(p, now)
	changed = a.decide(p, now, op, waited, &r) || a.added && !a.Over(now)
	if changed {
		for i := range a.n {
			c := &a.counts[i]
			c.Joined = len(p.Rules) > 1 && slices.Contains(p.Rules, c.Rule)
		}
	}
	return r, changed
}

func (a *Account) decide(p *Plan, now int64, op *driver.Op, waited bool, r *driver.Result) (changed bool) {
	r.Allowed, r.Plan, r.Receipt.At = true, p.ID, now
	switch op.Kind {
	case driver.Take, driver.Check, driver.Reserve:
		switch {
		case op.Cost > p.Capacity:
			r.Allowed, r.RetryAfter = false, driver.Never
		case op.Cost > 0:
			changed = a.take(p, now, op, waited, r)
		}
	case driver.TakeAtMost, driver.Drain:
		grant := op.Cost
		if op.Kind == driver.Drain {
			grant = math.MaxInt64
		}
		for _, rule := range p.Rules {
			grant = min(grant, rule.alg.available(rule.alg.look(a.find(rule).State, now, 0), now))
		}
		if grant > 0 {
			changed = a.take(p, now, &driver.Op{Kind: driver.Take, Cost: grant}, false, r)
		} else if op.Cost > 0 {
			a.take(p, now, &driver.Op{Kind: driver.Take, Cost: 1}, false, r)
		}
	case driver.Refund, driver.Reset:
	}
	var raws [MaxLimits]Raw
	for i, rule := range p.Rules {
		raws[i] = rule.alg.look(a.find(rule).State, now, 0)
	}
	p.report(raws[:len(p.Rules)], now, r)
	return changed
}

// Result is how an operation was decided that took so many permits, which can be used at a time; or,
// if it took -1, that was refused. The raws are how the key stands after it, read for the cost.
func (p *Plan) Result(now int64, op *driver.Op, granted, at int64, raws []Raw) driver.Result {
	r := driver.Result{Allowed: true, Plan: p.ID}
	switch cost := op.Cost; {
	case cost > p.Capacity && op.Kind != driver.TakeAtMost:
		r.Allowed, r.RetryAfter = false, driver.Never
	case granted < 0:
		if op.Kind == driver.TakeAtMost {
			cost = 1
		}
		r.Allowed = false
		p.wait(raws, now, cost, &r)
	default:
		r.Granted, r.Wait = granted, time.Duration(at-now)
	}
	p.report(raws, now, &r)
	return r
}

// wait finds out how long a cost has to wait, and for which limit.
func (p *Plan) wait(raws []Raw, now, cost int64, r *driver.Result) {
	for i, rule := range p.Rules {
		if after := time.Duration(rule.alg.earliest(raws[i], now, cost) - now); after > r.RetryAfter {
			r.RetryAfter, r.Which = after, i
		}
	}
}

// take takes op.Cost permits, at least 1, of all limits or of none. For a refusal r.Which is
// the one with the longest wait.
func (a *Account) take(p *Plan, now int64, op *driver.Op, waited bool, r *driver.Result) (changed bool) {
	var own [MaxLimits]int64
	var raws [MaxLimits]Raw
	for i, rule := range p.Rules {
		raws[i] = rule.alg.look(a.find(rule).State, now, op.Cost)
		own[i] = rule.alg.earliest(raws[i], now, op.Cost)
	}
	p.wait(raws[:], now, op.Cost, r)
	at := now + int64(r.RetryAfter)
	if at > now {
		ok := op.Kind == driver.Reserve && r.RetryAfter <= op.MaxWait
		for _, rule := range p.Rules {
			ok = ok && rule.alg.fits(a.find(rule).State, now, at, op.Cost)
		}
		if !ok {
			r.Allowed = false
			return false
		}
		r.Wait, r.RetryAfter = r.RetryAfter, 0
		more := new(More)
		for i, rule := range p.Rules {
			more.Before[i] = rule.alg.touch(a.find(rule).State, now).Word
		}
		r.Receipt.More = more
	}
	if op.Kind == driver.Check {
		return false
	}
	for i, rule := range p.Rules {
		c := a.find(rule)
		r.Receipt.Plans[i] = rule.ID
		c.State, r.Receipt.Parts[i] = rule.alg.charge(c.State, now, own[i], at, op.Cost, waited)
	}
	if a.n > len(p.Rules) {
		a.chargeKept(p, now, op.Cost, &r.Receipt)
	}
	r.Granted = op.Cost
	return true
}

// chargeKept charges the limits that are not in force.
func (a *Account) chargeKept(p *Plan, now, cost int64, to *driver.Receipt) {
	for i := range a.n {
		c := &a.counts[i]
		if slices.Contains(p.Rules, c.Rule) {
			continue
		}
		if receipt, taken := c.charge(now, cost); taken > 0 {
			Keep(to, Kept{c.Rule.ID, receipt, taken})
		}
	}
}

// report says how the limit that counts stands: of a refusal the one that was found already,
// otherwise the one with least remaining.
func (p *Plan) report(raws []Raw, now int64, r *driver.Result) {
	if len(p.Rules) > 1 && (r.Allowed || r.RetryAfter == driver.Never) {
		least := int64(math.MaxInt64)
		for i, rule := range p.Rules {
			n := rule.Capacity // a limit that is too small for the cost
			if r.RetryAfter != driver.Never {
				n = rule.alg.available(raws[i], now)
			}
			if n < least {
				r.Which, least = i, n
			}
		}
	}
	p.Rules[r.Which].Report(raws[r.Which], now, r)
}

// looks reports whether an operation takes nothing.
func looks(op *driver.Op) bool {
	return op.Kind == driver.Check || op.Cost == 0 && (op.Kind == driver.Take || op.Kind == driver.TakeAtMost || op.Kind == driver.Reserve)
}

// refund gives back the permits of a take that have not come back with time.
func (a *Account) refund(now int64, op *driver.Op) (changed bool) {
	take := &op.Receipt
	more, _ := take.More.(*More)
	reserved := more != nil && more.Before != [MaxLimits]uint64{}
	for i, id := range take.Plans {
		c := a.byID(id)
		if c == nil || (now-take.At)/5 > c.Rule.Horizon {
			continue // it has recovered, and its word means nothing any more
		}
		if reserved && !c.Rule.Listed() && c.Word == take.Parts[i] {
			c.Word, changed = more.Before[i], true // nothing has come since
			continue
		}
		changed = c.refund(now, op.Cost, take.Parts[i], take.At) || changed
	}
	if more != nil {
		for _, k := range more.Kept {
			if c := a.byID(k.Rule); c != nil && (now-take.At)/5 <= c.Rule.Horizon {
				changed = c.refund(now, min(k.Cost, op.Cost), k.Receipt, take.At) || changed
			}
		}
	}
	return changed
}

func (c *Count) refund(now, cost int64, receipt uint64, taken int64) (changed bool) {
	c.State, changed = c.Rule.alg.refund(c.State, now, cost, receipt, taken)
	return changed
}

func (a *Account) byID(id driver.ID) *Count {
	for i := range a.n {
		if a.counts[i].Rule.ID == id {
			return &a.counts[i]
		}
	}
	return nil
}
