package limits

import (
	"math"
	"sync/atomic"
	"time"
)

// A Clock is how a store counts time. Its times are in nanoseconds, from a time 0 of its
// own.
type Clock struct {
	Unix   int64 // the time 0, in nanoseconds since 1970
	Micros bool  // times are whole microseconds, and numbers are exact up to 2^53 only
}

// A Rule is a [Spec] made ready to compute with. It is not changed after it was made.
type Rule struct {
	Spec     Spec
	Capacity int64
	// Horizon is the time in ns in which a word has to be read again: one that is not
	// read for five times as long means nothing.
	Horizon int64
	// Number is the number of the limit in a table in memory, or 0.
	Number atomic.Uint32

	plan   *Plan // of the limit alone
	alg    algorithm
	bucket bucket
	window window
}

// Rule makes a Spec ready. It returns nil for a bucket that cannot be counted exactly, and for a
// Spec that is not valid.
func (c Clock) Rule(s Spec) *Rule {
	if s.refuse(2*MaxPeriod) != "" { // a share of a limit is rounded down
		return nil
	}
	r := &Rule{Spec: s, Capacity: Capacity(s), Horizon: math.MaxInt64}
	period := int64(s.Period)
	switch s.Algorithm {
	case TokenBucket:
		var exact bool
		if r.bucket, exact = newBucket(s, c.Micros); !exact {
			return nil
		}
		r.Horizon, r.alg = r.bucket.horizon(), &r.bucket
	case FixedWindow:
		r.window = newWindow(s, c.Unix)
		r.Horizon, r.alg = r.window.horizon(), &r.window
	case SlidingWindow:
		r.alg = segments{list{period, s.Permits, segmentsHead}, period / int64(s.Segments)}
	case SlidingLog:
		r.alg = segments{list{period, s.Permits, segmentsHead}, 1}
	case SlidingCounter:
		r.alg = counter{list{period, s.Permits, counterHead}}
	}
	return r
}

// Bounds of a [Spec].
const (
	MaxPermits    = 1 << 38 // also of a burst
	MaxLogPermits = 1 << 16 // of a SlidingLog
	MaxPeriod     = 5 * 365 * 24 * time.Hour
	maxSegments   = 1000
)

// FillTime returns the time in which an empty bucket fills or a window ends, rounded up, and false if that is above 63
// bits.
func FillTime(s Spec) (time.Duration, bool) {
	q, ok := MulDiv(Capacity(s), int64(s.Period), s.Permits, math.MaxInt64)
	return time.Duration(q), ok
}

// Listed reports whether the state of a key is always a list. All others are a word, as a rule.
func (r *Rule) Listed() bool { return r.Spec.Algorithm > TokenBucket }

// Alone is the plan of the limit alone.
func (r *Rule) Alone() *Plan { return r.plan }

// Bucket returns the numbers by which a bucket is counted: the units in a tick of so many
// nanoseconds, and the units of a permit.
func (r *Rule) Bucket() (units, cost, tick int64) {
	return int64(r.bucket.mul), r.bucket.cost, r.bucket.tick
}

// A State is the state of a key under one Rule: a word, or a list of numbers.
type State struct {
	Word uint64
	// Moved is, of a bucket, by how much refunds have moved later takes, in units; of a window that lies ahead, 1 more than
	// its use, and then Word is its start.
	Moved uint64 `json:",omitzero"`
	List  []int64
}

// A Raw is how a key stands under one limit: in permits, and in times.
type Raw [4]int64

// The numbers of a Raw.
const (
	available = iota // permits
	earliest         // the first time, now or later, at which the cost can be taken that it was read for
	more             // the time at which one permit more than these is available; now if all are
	full             // the time at which all are
)

// rawOf is how a key stands that has so many permits left, where first is the first time at which a number of permits can be taken.
func rawOf(capacity, left, now, cost int64, first func(permits int64) int64) Raw {
	raw := Raw{left, first(cost), now, first(capacity)}
	if left < capacity {
		raw[more] = first(left + 1)
	}
	return raw
}

// Earliest is the first time, now or later, at which the cost can be taken.
func (r Raw) Earliest() int64 { return r[earliest] }

// An algorithm is arithmetic. Times are in ns on the clock of the store. A charge at a time
// after now is a reservation, and nothing is taken before it.
type algorithm interface {
	// look reads a state as of now, for a cost.
	look(s State, now, cost int64) Raw
	// due is when the last permits that were reserved can be used, or now.
	due(s State, now int64) int64
	// used is how many permits are used at a time that is not before due, as a fraction.
	used(s State, at int64) (num, den int64)
	// put is the state, as of now, in which so many permits, as a fraction, were taken at a time, one capacity after
	// another if they are more than one. It is false if that cannot be kept.
	put(now, at, num, den int64) (s State, ok bool)
	// fits reports whether a charge can be kept that lies ahead.
	fits(s State, now, at, cost int64) bool
	// charge takes cost permits at a time, which is own, as look returned it, or later.
	// The receipt names the charge.
	charge(s State, now, own, at, cost int64) (next State, receipt uint64)
	// refund gives back the permits of a charge, taken at a time, that have not come back.
	refund(s State, now, cost int64, receipt uint64, taken int64) (State, bool)
	// over returns the time from which the state can be dropped; now if it can be.
	over(s State, now int64) int64
	// fresh is the state of a new key.
	fresh(now int64) State
	// touch writes a state anew as of now, so that it can be read for a Horizon.
	touch(s State, now int64) State
	// recovery returns the longest time until all is back that is taken now.
	recovery(now int64) int64
}

// reserveAhead is how many periods, this one included, a reservation can lie ahead.
const reserveAhead = 4

// Report says how a key stands under one limit.
func (r *Rule) Report(raw Raw, now int64, to *Result) {
	to.Limit, to.Remaining = r.Capacity, raw[available]
	to.NextAfter, to.FullAfter = time.Duration(raw[more]-now), time.Duration(raw[full]-now)
}
