package limits

import (
	"math"
	"slices"
	"time"
)

// A Key is one key during an operation, locked by its table.
type Key struct {
	Account

	Now     int64
	Changed bool // the table must write the account
}

// Apply does an operation at the time of the key. It sets Changed if the account must be written: after a charge, a
// refund, or a refusal that has restated a value.
func (k *Key) Apply(p *Plan, op *Op) (r Result) {
	switch op.Kind {
	case Refund:
		k.refund(op)
		op = &Op{}
	case Reset:
		k.Account, k.Changed, op = Account{}, true, &Op{}
	case Take, TakeAtMost, Reserve, Check, Drain:
	}
	cost := p.Asked(op)
	var next [MaxLimits]Value
	var all [MaxLimits]Raw
	var foreign, firm [MaxLimits]bool
	raws, before, restated := all[:len(p.Rules)], k.Account, false
	for i, rule := range p.Rules {
		v, raw, from, early := k.under(p, rule, cost)
		if next[i], raws[i], foreign[i] = v, raw, v.Rule != rule; early {
			before.values[from], restated = v, true
		}
		firm[i] = foreign[i] && !v.exact(rule, k.Now)
	}
	granted, at := k.grant(p, op, raws, &next)
	switch {
	case granted > 0:
		if at > k.Now {
			r.Receipt.More = &More{}
		}
		for i, rule := range p.Rules {
			v, before := &next[i], next[i].State
			v.State, r.Receipt.Parts[i] = rule.alg.charge(before, k.Now, raws[i][earliest], at, granted)
			if foreign[i] {
				v.State = rule.hold(v.State, k.Now, at)
			}
			if at > k.Now && firm[i] { // without it, what is used until then would be forgotten
				r.Receipt.Parts[i] = kept
			}
			if more := r.Receipt.More; more != nil {
				more.before[i], more.after[i] = rule.alg.touch(before, k.Now), v.State
			}
			raws[i] = rule.alg.look(v.State, k.Now, 0)
		}
		k.values, k.n, k.Changed = next, len(p.Rules), true
	case restated && granted < 0 && op.Kind != Check:
		k.Account, k.Changed = before, true
	}
	r.Receipt.At = k.Now
	p.Result(k.Now, op, granted, at, raws, &r)
	return r
}

// Asked is the cost for which a refusal says how long to wait: at least a permit, or nothing if that is never.
func (p *Plan) Asked(op *Op) int64 {
	switch {
	case op.Kind == TakeAtMost, op.Kind == Drain:
		return 1
	case op.Cost > p.Capacity:
		return 0
	}
	return op.Cost
}

// grant returns how many permits an operation takes of each limit, or -1 if it is refused, and the time
// at which they can be used. If it takes some, next are states of the limits of the plan.
func (k *Key) grant(p *Plan, op *Op, raws []Raw, next *[MaxLimits]Value) (permits, at int64) {
	permits, at = op.Cost, k.Now
	switch {
	case op.Kind == TakeAtMost || op.Kind == Drain:
		if op.Kind == Drain {
			permits = math.MaxInt64
		}
		for _, raw := range raws {
			permits = min(permits, raw[available])
		}
		if permits == 0 && op.Cost > 0 {
			return -1, at
		}
	case permits > p.Capacity:
		return -1, at
	case permits > 0:
		wait, _ := wait(raws, k.Now)
		if at += int64(wait); wait > 0 && (op.Kind != Reserve || wait > op.MaxWait) {
			return -1, at
		}
	}
	if permits == 0 || op.Kind == Check && at == k.Now {
		return 0, at
	}
	for i, rule := range p.Rules {
		v := &next[i]
		if v.Rule != rule {
			s, ok := v.restate(rule, k.Now, min(at, max(k.Now, raws[i][earliest])))
			if *v = (Value{rule, s}); !ok {
				return -1, at
			}
		}
		if at > k.Now && !rule.alg.fits(v.State, k.Now, at, permits) {
			return -1, at
		}
	}
	return permits, at
}

// Smallest is the index of the first limit with the capacity of the plan.
func (p *Plan) Smallest() int {
	return slices.IndexFunc(p.Rules, func(r *Rule) bool { return r.Capacity == p.Capacity })
}

// Result says how an operation was decided that took so many permits, which can be used at a time; or,
// if it took -1, that was refused. The raws are how the key stands after it, read for the cost.
func (p *Plan) Result(now int64, op *Op, granted, at int64, raws []Raw, r *Result) {
	r.Receipt.Plan = p
	switch {
	case op.Cost > p.Capacity && op.Kind != TakeAtMost && op.Kind != Drain:
		r.RetryAfter, r.Which = Never, p.Smallest()
	case granted < 0:
		r.RetryAfter, r.Which = wait(raws, now)
	default:
		r.Allowed, r.Permits, r.Wait = true, granted, time.Duration(at-now)
		for i, raw := range raws { // the one with least remaining; of those, the one that has its next permit last
			least := raws[r.Which]
			if raw[available] < least[available] || raw[available] == least[available] && raw[more] > least[more] {
				r.Which = i
			}
		}
	}
	p.Rules[r.Which].Report(raws[r.Which], now, r)
}

// wait returns how long the cost has to wait that raws were read for, and for which limit.
func wait(raws []Raw, now int64) (longest time.Duration, which int) {
	for i, raw := range raws {
		if after := time.Duration(raw[earliest] - now); after > longest {
			longest, which = after, i
		}
	}
	return longest, which
}

// refund gives back the permits of a take that have not come back with time, of the limits that the values are still
// counted under.
func (k *Key) refund(op *Op) {
	take := &op.Receipt
	if take.Plan == nil {
		return
	}
	for i, r := range take.Plan.Rules {
		if at := k.origin(r); at >= 0 && k.values[at].Rule == r && take.Parts[i] != kept && (k.Now-take.At)/5 <= r.Horizon { // later it has recovered
			v := &k.values[at]
			begun := r.Spec.Algorithm == FixedWindow && int64(take.Parts[i]) <= k.Now // then the window stays
			if more := take.More; more != nil && !r.Listed() && !begun && v.Word == more.after[i].Word && v.Moved == more.after[i].Moved {
				v.State, k.Changed = more.before[i], true // nothing has come since the reservation
				continue
			}
			s, changed := r.alg.refund(v.State, k.Now, op.Cost, take.Parts[i], take.At)
			v.State, k.Changed = s, k.Changed || changed
		}
	}
}
