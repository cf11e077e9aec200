package ratelimit

import "math/bits"

// A plan is a limit, made ready to decide.
type plan struct {
	id      PlanID
	limit   Limit  // resolved
	salt    uint64 // for the hash of a key: plans of one kind have the same
	horizon int64  // ns; a word older than five of them is neutral
	scale   scale  // of a bucket
	layout  layout // of a window
}

func newPlan(id PlanID, l Limit, salt uint64) *plan {
	p := &plan{id: id, limit: l.resolved(), salt: salt}
	if p.limit.Algorithm == TokenBucket {
		p.scale, _ = newScale(p.limit) // it fits: the limit is valid
		p.horizon = p.scale.horizon()
		return p
	}
	p.layout = newLayout(p.limit)
	p.horizon = p.layout.horizon()
	return p
}

// kind is what plans have in common that share the state of a key: that they are
// buckets, or windows of this period.
func (l Limit) kind() Limit {
	if l.Algorithm == TokenBucket {
		return Limit{Algorithm: TokenBucket}
	}
	return Limit{Period: l.Period}
}

// apply decides on a key whose word was written by from, a plan of the same kind; nil
// is a new key. changed tells that the next word is to be kept.
func (p *plan) apply(word uint64, from *plan, now int64, op Op) (next uint64, r Result, changed bool) {
	if p.limit.Algorithm == TokenBucket {
		return p.bucket(word, from, now, op)
	}
	return p.window(word, from, now, op)
}

// neutralAt is the time at which a key with this word is as good as a new one.
func (p *plan) neutralAt(word uint64, now int64) int64 {
	if p.limit.Algorithm == TokenBucket {
		units, rest := p.scale.now(now)
		return now + int64(p.scale.after(max(0, int64(word-units)), rest))
	}
	start, used := p.windowAt(word, now)
	if used == 0 {
		return now
	}
	return start + (used+p.limit.Permits-1)/p.limit.Permits*int64(p.limit.Period)
}

// taken is how many permits a key with this word has taken that time has not
// given back.
func (p *plan) taken(word uint64, now int64) int64 {
	if p.limit.Algorithm == TokenBucket {
		units, _ := p.scale.now(now)
		return (max(0, int64(word-units)) + p.scale.cost - 1) / p.scale.cost
	}
	_, used := p.windowAt(word, now)
	return used
}

// owing is the word of a key that will be neutral at a time and has taken so many
// permits, under a plan of the same kind. A bucket is what the time says. A time
// that lies further ahead than a word can hold is cut to that.
func (p *plan) owing(neutral, taken, now int64) uint64 {
	if p.limit.Algorithm == FixedWindow {
		start := min(neutral-int64(p.limit.Period), now+4*p.horizon)
		return p.layout.pack(p.layout.tick(start), min(taken, p.limit.Permits))
	}
	units, _ := p.scale.now(now)
	ticks := uint64(max(0, neutral-now)+p.scale.tick-1) / uint64(p.scale.tick)
	if hi, debt := bits.Mul64(ticks, p.scale.mul); hi == 0 && debt < 2*maxUnits {
		return units + debt
	}
	return units + 2*maxUnits
}
