package ratelimit

import (
	"math"
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
		ticks = int64((uint64(units) + s.mul - 1) / s.mul)
	}
	if s.tick == 1 {
		return time.Duration(ticks)
	}
	if ticks > math.MaxInt64/s.tick {
		return math.MaxInt64
	}
	return time.Duration(ticks*s.tick - rest)
}

// bucket decides on a token bucket. Its word is the time, in units modulo 2^64,
// at which the bucket will be full: what lies ahead of now is its debt. It was
// written by from, nil is a new key.
func (p *plan) bucket(word uint64, from *plan, now int64, op Op) (next uint64, r Result, changed bool) {
	s := &p.scale
	units, rest := s.now(now)
	debt := int64(0)
	switch from {
	case nil:
	case p:
		debt = max(0, int64(word-units))
	default: // it keeps its debt in time
		debt = int64(p.owing(from.neutralAt(word, now), 0, now) - units)
	}
	r = Result{Plan: p.id, Limit: p.limit.Burst, Allowed: true}
	owed := debt
	switch op.Kind {
	case Take, Reserve:
		if op.Cost > p.limit.Burst {
			r.Allowed, r.RetryAfter = false, Never
			break
		}
		charge := op.Cost * s.cost
		if over := debt + charge - s.capacity; over > 0 && charge > 0 {
			r.RetryAfter = s.after(over, rest)
			if op.Kind == Take || r.RetryAfter > op.MaxWait || debt+charge > 2*maxUnits {
				r.Allowed = false
				break
			}
			r.Wait, r.RetryAfter = r.RetryAfter, 0
		}
		debt += charge
		r.Granted = op.Cost
	case TakeAtMost:
		r.Granted = min(op.Cost, max(0, s.capacity-debt)/s.cost)
		debt += r.Granted * s.cost
		if r.Granted == 0 && op.Cost > 0 {
			r.Allowed, r.RetryAfter = false, s.after(debt+s.cost-s.capacity, rest)
		}
	case Refund:
		debt -= s.refund(debt, op, units)
	case Reset: // the table forgets the key
	}
	if whole := s.capacity - debt; whole >= 0 {
		r.Remaining = whole / s.cost
	}
	if r.Remaining < p.limit.Burst {
		r.NextAfter = s.after(debt+(r.Remaining+1)*s.cost-s.capacity, rest)
	}
	r.FullAfter = s.after(debt, rest)
	next = units + uint64(debt)
	r.Receipt = next
	return next, r, debt != owed
}

// refund is how much of the debt goes with the take that op names. What time has
// repaid of it already is not given twice. While somebody waits for a place that
// lies ahead, only what nobody reserved behind the take is given back, since the
// places of others do not move.
func (s *scale) refund(debt int64, op Op, units uint64) int64 {
	charge := int64(math.MaxInt64)
	if op.Cost <= maxUnits/s.cost {
		charge = op.Cost * s.cost
	}
	unpaid := int64(op.Receipt - units)
	if debt > s.capacity {
		charge -= max(0, debt-unpaid)
	}
	return max(0, min(charge, unpaid, debt))
}
