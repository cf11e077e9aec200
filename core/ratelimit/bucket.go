package ratelimit

import (
	"math"
	"math/bits"
	"time"
)

// A scale is the unit in which a bucket counts time: one unit is 1/mul of a
// tick, and so a permit costs a whole number of units and nothing is rounded.
// Take 3 per second: a tick is 1ns, mul is 3, and a permit costs 10^9 units.
type scale struct {
	tick     int64  // ns in a tick: 1, and more only where a full bucket would not fit
	mul      uint64 // units in a tick
	cost     int64  // units of one permit
	capacity int64  // units of a full bucket

	permits, ticks divisor // by cost and mul
}

// maxUnits bounds the debt of a full bucket, so that with a reservation on top
// the distance of two times stays below half of what a word can tell apart.
const maxUnits = 1 << 61

// newScale is the finest scale that is exact and fits.
func newScale(l Limit) (scale, bool) {
	for tick := int64(1); int64(l.Period)%tick == 0; tick *= 10 {
		period := int64(l.Period) / tick
		g := gcd(period, l.Permits)
		s := scale{tick: tick, mul: uint64(l.Permits / g), cost: period / g}
		if s.cost <= maxUnits/l.Burst {
			s.capacity = s.cost * l.Burst
			s.permits, s.ticks = newDivisor(s.cost), newDivisor(int64(s.mul))
			return s, true
		}
	}
	return scale{}, false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// now is a time in units, modulo 2^64, and the part of a tick that is left.
func (s *scale) now(t int64) (units uint64, rest int64) {
	if s.tick == 1 {
		return uint64(t) * s.mul, 0
	}
	return uint64(t/s.tick) * s.mul, t % s.tick
}

// horizon is how often a word must be looked at, in ns: an eighth of half of what
// a word can tell apart.
func (s *scale) horizon() int64 {
	ticks := (1 << 60) / s.mul
	if ticks > uint64(math.MaxInt64/s.tick) {
		return math.MaxInt64
	}
	return int64(ticks) * s.tick
}

// after is how long it takes until that many units have passed, rounded up.
func (s *scale) after(units, rest int64) time.Duration {
	if units <= 0 {
		return 0
	}
	ticks := units
	if s.mul != 1 {
		ticks, _ = s.ticks.of(units + int64(s.mul) - 1)
	}
	if s.tick == 1 {
		return time.Duration(ticks)
	}
	if ticks > math.MaxInt64/s.tick {
		return math.MaxInt64
	}
	return time.Duration(ticks*s.tick - rest)
}

// debt is what a key owes, in units. The word of a bucket is the time, in units
// modulo 2^64, at which it will be full: what lies ahead of now. Under another plan
// the debt was kept in time.
func (p *plan) debt(st *state, now int64) int64 {
	units, _ := p.scale.now(now)
	switch st.from {
	case nil:
		return 0
	case p:
		return max(0, int64(st.word-units))
	}
	return int64(p.bucketOwing(st.from.fullAt(st, now), now).word - units)
}

func (p *plan) bucketEarliest(st *state, now, cost int64) int64 {
	over := p.debt(st, now) + cost*p.scale.cost - p.scale.capacity
	if over <= 0 {
		return now
	}
	_, rest := p.scale.now(now)
	return now + int64(p.scale.after(over, rest))
}

func (p *plan) bucketFits(st *state, now, at, cost int64) bool {
	ticks := uint64(at-now+p.scale.tick-1) / uint64(p.scale.tick)
	return ticks <= 2*maxUnits/p.scale.mul && max(p.debt(st, now), int64(ticks*p.scale.mul))+cost*p.scale.cost <= 2*maxUnits
}

// bucketCharge adds to the debt. Where others make the permits come later than own,
// the bucket may not fill until then. One who was queued came at the first tick after
// his time, and the bucket does not lose the fraction in between.
func (p *plan) bucketCharge(st *state, now, own, at, cost int64, queued bool) {
	units, _ := p.scale.now(now)
	debt := p.debt(st, now)
	if fraction := units - st.word; queued && debt == 0 && st.from == p && fraction < p.scale.mul {
		debt = -int64(fraction)
	}
	if at > own {
		later, _ := p.scale.now(at)
		debt = max(debt, int64(later-units))
	}
	st.word = units + uint64(debt+cost*p.scale.cost)
}

// bucketRefund gives back the part of a take that time has not repaid already.
// While somebody holds a place that lies ahead, only what nobody reserved behind the
// take is given back, since the places of others do not move.
func (p *plan) bucketRefund(st *state, now, cost int64, receipt uint64) bool {
	s := &p.scale
	units, _ := s.now(now)
	debt := p.debt(st, now)
	charge := int64(math.MaxInt64)
	if cost <= maxUnits/s.cost {
		charge = cost * s.cost
	}
	unpaid := int64(receipt - units)
	if debt > s.capacity {
		charge -= max(0, debt-unpaid)
	}
	back := max(0, min(charge, unpaid, debt))
	if back == 0 {
		return false
	}
	st.word, st.from = units+uint64(debt-back), p
	return true
}

// bucketOwing is a bucket that will be full at a time.
func (p *plan) bucketOwing(until, now int64) state {
	units, _ := p.scale.now(now)
	ticks := uint64(max(0, until-now)+p.scale.tick-1) / uint64(p.scale.tick)
	if hi, debt := bits.Mul64(ticks, p.scale.mul); hi == 0 && debt < 2*maxUnits {
		return state{from: p, word: units + debt}
	}
	return state{from: p, word: units + 2*maxUnits}
}
