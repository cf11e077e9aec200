package ratelimit

import "math/bits"

// A plan is a limit, made ready to decide.
type plan struct {
	id      PlanID
	limit   Limit  // resolved
	horizon int64  // ns; a word older than five of them is neutral
	scale   scale  // of a bucket
	layout  layout // of a window
}

func newPlan(id PlanID, l Limit) *plan {
	p := &plan{id: id, limit: l.resolved()}
	if p.limit.Algorithm == TokenBucket {
		p.scale, _ = newScale(p.limit) // it fits: the limit is valid
		p.horizon = p.scale.horizon()
		return p
	}
	p.layout = newLayout(p.limit)
	p.horizon = p.layout.horizon()
	return p
}

// apply decides. The new word is to be kept when permits were granted or given
// back.
func (p *plan) apply(word uint64, fresh bool, now int64, op Op) (uint64, Result) {
	if p.limit.Algorithm == TokenBucket {
		return p.bucket(word, fresh, now, op)
	}
	return p.window(word, fresh, now, op)
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
// permits. A bucket is what the time says. A time that lies further ahead than a
// word can hold is cut to that.
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

// convert turns the word of a key that was written under another plan into one
// of this plan. It never forgives: a bucket keeps its debt in time, a window its
// start and its count. Between the two the permits are kept: those of a window
// count as taken when it began, those of a bucket as taken now.
func (p *plan) convert(from *plan, word uint64, now int64) uint64 {
	if from.limit.Algorithm == TokenBucket {
		if p.limit.Algorithm == TokenBucket {
			return p.owing(from.neutralAt(word, now), 0, now)
		}
		return p.layout.pack(p.layout.tick(now), min(from.taken(word, now), reserveAhead*p.limit.Permits))
	}
	start, used := from.windowAt(word, now)
	if p.limit.Algorithm == FixedWindow {
		return p.layout.pack(p.layout.tick(start), min(used, reserveAhead*p.limit.Permits))
	}
	debt := uint64(2 * maxUnits)
	if used <= 2*maxUnits/p.scale.cost {
		debt = uint64(used * p.scale.cost)
	}
	ticks := uint64(max(0, now-start) / p.scale.tick)
	if hi, repaid := bits.Mul64(ticks, p.scale.mul); hi == 0 && repaid < debt {
		debt -= repaid
	} else {
		debt = 0
	}
	units, _ := p.scale.now(now)
	return units + debt
}
