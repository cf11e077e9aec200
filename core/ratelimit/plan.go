package ratelimit

import (
	"math"
	"time"
)

// A plan is a limit, made ready to decide.
type plan struct {
	id       PlanID
	limit    Limit
	capacity int64
	parts    []*plan // itself, or those that And joined

	// Of one limit:
	salt    uint64 // for the hash of a key: plans of one kind have the same
	horizon int64  // ns; a word older than five of them is neutral
	custom  Custom // what keeps a list of numbers, or nil for what keeps a word
	scale   scale  // of a bucket
	layout  layout // of a fixed window
	zero    int64  // of one that is aligned: when a window began, at or before 0
}

// newPlan makes one limit ready. Times are counted from wall.
func newPlan(l Limit, salt uint64, wall time.Time) *plan {
	p := &plan{limit: l, capacity: l.Capacity(), salt: salt, horizon: math.MaxInt64, custom: l.Custom}
	p.parts = []*plan{p}
	period := int64(l.Period)
	switch {
	case l.Custom != nil:
	case l.Algorithm == TokenBucket:
		p.scale, _ = newScale(l) // it fits: the limit is valid
		p.horizon = p.scale.horizon()
	case l.Algorithm == FixedWindow:
		p.layout = newLayout(l)
		p.horizon = p.layout.horizon()
		if l.Aligned {
			p.zero = -(wall.UnixNano() % period)
		}
	case l.Algorithm == SlidingWindow:
		p.custom = sliding{step: period / int64(l.Segments), period: period}
	case l.Algorithm == SlidingLog:
		p.custom = sliding{step: 1, period: period}
	case l.Algorithm == SlidingCounter:
		p.custom = counter{period}
	}
	return p
}

// A state is what is kept of a key under one limit.
type state struct {
	word  uint64  // of a bucket or a fixed window
	list  []int64 // of all others
	from  *plan   // that wrote it; nil is a new key
	until int64   // of a list that was dropped: nothing is to be had before
}

func (p *plan) bucket() bool { return p.custom == nil && p.limit.Algorithm == TokenBucket }

// earliest is the first time, now or later, at which cost permits can be taken.
func (p *plan) earliest(st *state, now, cost int64) int64 {
	switch {
	case p.custom != nil:
		return max(now, st.until, p.custom.Earliest(p.limit, st.list, max(now, st.until), cost))
	case p.bucket():
		return p.bucketEarliest(st, now, cost)
	}
	return p.windowEarliest(st, now, cost)
}

// fits tells whether a word can hold a charge that lies ahead.
func (p *plan) fits(st *state, now, at, cost int64) bool {
	switch {
	case p.custom != nil:
		return true
	case p.bucket():
		return p.bucketFits(st, now, at, cost)
	}
	return p.windowFits(st, now, at, cost)
}

// charge takes cost permits at a time, which is own, as earliest returned it, or
// later. The receipt names the charge.
func (p *plan) charge(st *state, now, own, at, cost int64, queued bool) (receipt uint64) {
	switch {
	case p.custom != nil:
		st.list = p.custom.Charge(p.limit, st.list, now, at, cost)
		receipt = uint64(at)
	case p.bucket():
		receipt = p.bucketCharge(st, now, own, at, cost, queued)
	default:
		receipt = p.windowCharge(st, now, at, cost)
	}
	st.from, st.until = p, 0
	return receipt
}

// refund gives back what a charge took that time has not given back.
func (p *plan) refund(st *state, now, cost, taken int64, receipt uint64) (changed bool) {
	switch {
	case st.from == nil:
		return false
	case p.custom != nil:
		before := p.custom.FullAt(p.limit, st.list, now)
		had := p.custom.Available(p.limit, st.list, now)
		st.list = p.custom.Refund(p.limit, st.list, now, int64(receipt), cost)
		return before != p.custom.FullAt(p.limit, st.list, now) || had != p.custom.Available(p.limit, st.list, now)
	case p.bucket():
		return (now-taken)/5 <= p.horizon && p.bucketRefund(st, now, cost, receipt)
	}
	return windowRefund(st, now, cost, receipt)
}

// available is how many permits can be taken now.
func (p *plan) available(st *state, now int64) int64 {
	switch {
	case p.custom != nil:
		if st.until > now {
			return 0
		}
		return min(p.capacity, max(0, p.custom.Available(p.limit, st.list, now)))
	case p.bucket():
		return max(0, p.scale.capacity-p.debt(st, now)) / p.scale.cost
	}
	_, used := p.windowOf(st, now)
	return max(0, p.limit.Permits-used)
}

// fullAt is the time at which a key is as good as a new one; now if it is.
func (p *plan) fullAt(st *state, now int64) int64 {
	switch {
	case p.custom != nil:
		return max(now, st.until, p.custom.FullAt(p.limit, st.list, now))
	case p.bucket():
		_, rest := p.scale.now(now)
		return now + int64(p.scale.after(p.debt(st, now), rest))
	}
	start, used := p.windowOf(st, now)
	if used == 0 {
		return now
	}
	return start + (used+p.limit.Permits-1)/p.limit.Permits*int64(p.limit.Period)
}

// taken is how many permits a key has taken that time has not given back.
func (p *plan) taken(st *state, now int64) int64 {
	switch c := p.custom.(type) {
	case nil:
	case sliding:
		return c.taken(st.list, now)
	case counter:
		return c.taken(st.list, now)
	default:
		if p.fullAt(st, now) <= now {
			return 0
		}
		return max(1, p.capacity-p.available(st, now))
	}
	if p.bucket() {
		return (p.debt(st, now) + p.scale.cost - 1) / p.scale.cost
	}
	_, used := p.windowOf(st, now)
	return used
}

// owing is the state of a key that will be neutral at a time and has taken so many
// permits. A time that lies further ahead than a word can hold is cut to that.
func (p *plan) owing(until, taken, now int64) state {
	taken = min(taken, p.capacity)
	switch c := p.custom.(type) {
	case nil:
	case sliding:
		return state{from: p, list: c.Charge(p.limit, nil, now, until-c.period, taken)}
	case counter:
		return state{from: p, list: c.Charge(p.limit, nil, until-2*c.period, until-2*c.period, taken)}
	default:
		return state{from: p, until: until}
	}
	if p.bucket() {
		return p.bucketOwing(until, now)
	}
	start := min(until-int64(p.limit.Period), now+4*p.horizon)
	return state{from: p, word: p.layout.pack(p.layout.tick(start), taken)}
}

// migrate is the state of a key under p that another kind of limit knows: as if all
// that it has taken there had been taken here, just now.
func (p *plan) migrate(old *plan, st *state, now int64) (fresh state) {
	if taken := min(old.taken(st, now), p.capacity); taken > 0 {
		p.charge(&fresh, now, now, now, taken, false)
	}
	return fresh
}

// began is when the window began that is on, of a limit that gives way to another at
// the end of one; the end of time, if there is none.
func (p *plan) began(st *state, now int64) int64 {
	switch c := p.custom.(type) {
	case nil:
		if p.bucket() {
			break
		}
		if start, used := p.windowOf(st, now); used > 0 {
			return start
		}
	case sliding:
		if c.step > 1 && c.taken(st.list, now) > 0 {
			return now - now%c.step
		}
	case counter:
		if c.taken(st.list, now) > 0 {
			return c.at(st.list, now).start
		}
	}
	return math.MaxInt64
}

// decide does an operation under a plan whose parts have these states. It changes
// the states only if it changes the key.
func decide(parts []*plan, states []*state, capacity, now int64, op Op) (r Result, changed bool) {
	r.Allowed = true
	switch op.Kind {
	case Take, Check, Reserve:
		if op.Cost > capacity {
			r.Allowed, r.RetryAfter = false, Never
			break
		}
		if op.Cost > 0 {
			changed = take(parts, states, now, op, &r)
		}
	case TakeAtMost:
		grant := op.Cost
		for i, p := range parts {
			if has := p.available(states[i], now); has < grant {
				grant = has
			}
		}
		if grant > 0 {
			changed = take(parts, states, now, Op{Kind: Take, Cost: grant}, &r)
		} else if op.Cost > 0 {
			take(parts, states, now, Op{Kind: Take, Cost: 1}, &r)
		}
	case Refund:
		for i, p := range parts {
			if p.refund(states[i], now, op.Cost, op.Receipt.At, op.Receipt.Parts[i]) {
				changed = true
			}
		}
	case Reset: // the table forgets the key
	}
	report(parts, states, now, &r)
	return r, changed
}

// take takes op.Cost permits, at least 1 and at most the capacity, of all parts or
// of none. For a refusal r.Which is the part that has to be waited for longest.
func take(parts []*plan, states []*state, now int64, op Op, r *Result) (changed bool) {
	var own [MaxLimits]int64
	at := now
	for i, p := range parts {
		own[i] = p.earliest(states[i], now, op.Cost)
		if own[i] > at {
			at, r.Which = own[i], i
		}
	}
	if at > now {
		r.RetryAfter = time.Duration(at - now)
		ok := op.Kind == Reserve && r.RetryAfter <= op.MaxWait
		for i, p := range parts {
			ok = ok && p.fits(states[i], now, at, op.Cost)
		}
		if !ok {
			r.Allowed = false
			return false
		}
		r.Wait, r.RetryAfter = r.RetryAfter, 0
	}
	if op.Kind == Check {
		return false
	}
	for i, p := range parts {
		r.Receipt.Parts[i] = p.charge(states[i], now, own[i], at, op.Cost, op.queued)
	}
	r.Granted, r.Receipt.At = op.Cost, now
	return true
}

// report tells how the part that counts stands: of a refusal the one that was found
// already, else the one with least remaining.
func report(parts []*plan, states []*state, now int64, r *Result) {
	if r.Allowed || r.RetryAfter == Never {
		least := int64(math.MaxInt64)
		for i, p := range parts {
			n := p.available(states[i], now)
			if r.RetryAfter == Never {
				n = p.capacity // what is too small for the cost
			}
			if n < least {
				r.Which, least = i, n
			}
		}
	}
	p, st := parts[r.Which], states[r.Which]
	r.Limit, r.Remaining = p.capacity, p.available(st, now)
	if r.Remaining < p.capacity {
		r.NextAfter = time.Duration(p.earliest(st, now, r.Remaining+1) - now)
	}
	r.FullAfter = time.Duration(p.fullAt(st, now) - now)
}
