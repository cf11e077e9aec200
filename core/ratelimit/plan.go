package ratelimit

import (
	"math"
	"slices"
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
	horizon int64  // ns, in which its words must be swept before they can be read; one older than five of them is neutral
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
	case l.Algorithm == AlgorithmTokenBucket:
		p.scale, _ = newScale(l) // it fits: the limit is valid
		p.horizon = p.scale.horizon()
	case l.Algorithm == AlgorithmFixedWindow:
		p.layout = newLayout(l)
		p.horizon = p.layout.horizon()
		if l.Aligned {
			p.zero = -(wall.UnixNano() % period)
		}
	case l.Algorithm == AlgorithmSlidingWindow:
		p.custom = sliding{step: period / int64(l.Segments), period: period}
	case l.Algorithm == AlgorithmSlidingLog:
		p.custom = sliding{step: 1, period: period}
	case l.Algorithm == AlgorithmSlidingCounter:
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

// exact tells whether what is taken must never be closer together than the limit
// says, also where who waits is woken late.
func (p *plan) exact() bool {
	return slices.ContainsFunc(p.parts, func(part *plan) bool { return part.custom != nil })
}

func (p *plan) bucket() bool { return p.custom == nil && p.limit.Algorithm == AlgorithmTokenBucket }

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

// fits tells whether a charge can be kept that lies ahead.
func (p *plan) fits(st *state, now, at, cost int64) bool {
	switch {
	case p.custom != nil:
		return (at-now)/reserveAhead <= int64(p.limit.Period)
	case p.bucket():
		return p.bucketFits(st, now, at, cost)
	}
	return p.windowFits(st, now, at, cost)
}

// charge takes cost permits at a time, which is own, as earliest returned it, or
// later. The receipt names the charge: it is the word after it, or the time.
func (p *plan) charge(st *state, now, own, at, cost int64, queued bool) (receipt uint64) {
	switch {
	case p.custom != nil:
		st.list = p.custom.Charge(p.limit, st.list, now, at, cost)
		receipt = uint64(at)
	case p.bucket():
		p.bucketCharge(st, now, own, at, cost, queued)
		receipt = st.word
	default:
		p.windowCharge(st, now, at, cost)
		receipt = st.word
	}
	st.from, st.until = p, 0
	return receipt
}

// word is the word of a key, as p would write it; 0 for one that has a list.
func (p *plan) word(st *state, now int64) uint64 {
	switch {
	case p.custom != nil:
		return 0
	case p.bucket():
		units, _ := p.scale.now(now)
		return units + uint64(p.debt(st, now))
	}
	start, used := p.windowOf(st, now)
	return p.layout.pack(start, used)
}

// refund gives back what a charge took that time has not given back.
func (p *plan) refund(st *state, now, cost int64, r *Receipt, i int) (changed bool) {
	switch {
	case st.from == nil:
		return false
	case p.custom != nil:
		st.list = p.custom.Refund(p.limit, st.list, now, int64(r.Parts[i]), cost)
		return true
	case (now-r.At)/5 > p.horizon:
		return false // it is repaid, and its word means nothing any more
	case r.before != nil && st.from == p && st.word == r.Parts[i]:
		st.word = r.before[i] // nothing has come since
		return true
	case p.bucket():
		return p.bucketRefund(st, now, cost, r.Parts[i])
	}
	return p.windowRefund(st, now, cost, r.At, r.Parts[i])
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
		n, _ := p.scale.permits.of(max(0, p.scale.capacity-p.debt(st, now)))
		return n
	}
	_, used := p.windowOf(st, now)
	return max(0, p.limit.Permits-used)
}

// fullAt is the time at which all permits of a key are there; now if they are.
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

// neutralAt is the time from which a key, whose state p wrote, can be dropped and nothing
// is lost; now if it can be. It is fullAt, except for a window of which all was refunded.
func (p *plan) neutralAt(st *state, now int64) int64 {
	if c, ok := p.custom.(counter); ok {
		return c.over(p.limit, st.list, now)
	}
	if p.custom == nil && !p.bucket() {
		return p.windowOver(st, now)
	}
	return p.fullAt(st, now)
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
// the states only if it changes the key. Parts may be others than those of the plan,
// which they are to give way to: then capacity is that of the plan.
func decide(parts []*plan, states []*state, capacity, now int64, op Op) (r Result, changed bool) {
	r.Allowed = true
	switch op.Kind {
	case Take, Check, Reserve:
		if op.Cost > 0 {
			changed = take(parts, states, now, op, &r)
		}
		if !r.Allowed && op.Cost > capacity {
			r.RetryAfter = Never
		}
	case TakeAtMost, Drain:
		grant := op.Cost
		if op.Kind == Drain {
			grant = math.MaxInt64
		}
		for i, p := range parts {
			grant = min(grant, p.available(states[i], now))
		}
		if grant > 0 {
			changed = take(parts, states, now, Op{Kind: Take, Cost: grant}, &r)
		} else if op.Cost > 0 {
			take(parts, states, now, Op{Kind: Take, Cost: 1}, &r)
		}
	case Refund, Reset: // see keyed
	}
	report(parts, states, now, &r)
	return r, changed
}

// take takes op.Cost permits, at least 1, of all parts or of none. For a refusal
// r.Which is the part that has to be waited for longest.
func take(parts []*plan, states []*state, now int64, op Op, r *Result) (changed bool) {
	var own [MaxLimits]int64
	at := now
	for i, p := range parts {
		if op.Cost > p.capacity {
			own[i] = max(now+1, p.fullAt(states[i], now)) // never, or when it gives way to a larger one
		} else {
			own[i] = p.earliest(states[i], now, op.Cost)
		}
		if own[i] > at {
			at, r.Which = own[i], i
		}
	}
	if at > now {
		r.RetryAfter = time.Duration(at - now)
		ok := op.Kind == Reserve && r.RetryAfter <= op.MaxWait
		for i, p := range parts {
			ok = ok && op.Cost <= p.capacity && p.fits(states[i], now, at, op.Cost)
		}
		if !ok {
			r.Allowed = false
			return false
		}
		r.Wait, r.RetryAfter = r.RetryAfter, 0
		r.Receipt.before = new([MaxLimits]uint64)
		for i, p := range parts {
			r.Receipt.before[i] = p.word(states[i], now)
		}
	}
	if op.Kind == Check {
		return false
	}
	for i, p := range parts {
		r.Receipt.Plans[i] = p.id
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
