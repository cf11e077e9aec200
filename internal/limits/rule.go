package limits

import (
	"math"
	"math/bits"
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
	ID       ID // that its store gave it
	Spec     Spec
	Capacity int64
	// Horizon is the time in ns in which a word has to be read again: one that is not
	// read for five times as long means nothing.
	Horizon int64

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
		r.alg = segments{list{period, s.Permits}, period / int64(s.Segments)}
	case SlidingLog:
		r.alg = segments{list{period, s.Permits}, 1}
	case SlidingCounter:
		r.alg = counter{list{period, s.Permits}}
	}
	return r
}

// Bounds of a [Spec].
const (
	MaxPermits    = 1 << 38 // also of a burst
	MaxLogPermits = 1 << 16 // of a SlidingLog
	MaxPeriod     = 5 * 365 * 24 * time.Hour
	MaxSegments   = 1000
)

// FillTime returns the time in which an empty bucket fills or a window ends, rounded up, and false if that is above 63
// bits.
func FillTime(s Spec) (time.Duration, bool) {
	c := uint64(s.Permits)
	hi, lo := bits.Mul64(uint64(Capacity(s)), uint64(s.Period))
	if hi >= c {
		return 0, false
	}
	q, r := bits.Div64(hi, lo, c)
	q += min(1, r)
	return time.Duration(q), q < 1<<63
}

// granted writes the result of a take of a word that was granted.
func (r *Rule) granted(word uint64, cost int64, to *Result) {
	to.Allowed, to.Permits = true, cost
	to.Receipt.Plans[0], to.Receipt.Parts[0] = r.ID, word
}

// Listed reports whether the state of a key is a list. All others are a word.
func (r *Rule) Listed() bool { return r.Spec.Algorithm > TokenBucket }

// Bucket returns the numbers by which a bucket is counted: the units in a tick of so many
// nanoseconds, and the units of a permit.
func (r *Rule) Bucket() (units, cost, tick int64) {
	return int64(r.bucket.mul), r.bucket.cost, r.bucket.tick
}

// Longest returns the time in which all comes back that can be taken and reserved of a window, or
// of a bucket whose reservations lie no further ahead.
func (r *Rule) Longest() time.Duration {
	span := r.Spec.Period
	if r.Spec.Algorithm == TokenBucket {
		span = r.bucket.after(r.bucket.capacity, 0)
	}
	if span > math.MaxInt64/(reserveAhead+1) {
		return math.MaxInt64
	}
	return (reserveAhead + 1) * span
}

// A State is the state of a key under one Rule: a word, or a list of numbers.
type State struct {
	Word  uint64
	Moved uint64 `json:",omitzero"` // of a bucket: by how much refunds have moved later takes, in units
	List  []int64
}

// A Raw is where a key stands under one Rule, in at most four numbers:
//
//	TokenBucket     debt, in units
//	FixedWindow     start, used
//	SlidingCounter  time, start, before, used: at the time from which permits can be taken
//	others          available, and the times of the cost, of one permit more, and of all
type Raw [4]int64

// An algorithm is arithmetic. Times are in ns on the clock of the store. A charge at a time
// after now is a reservation.
type algorithm interface {
	// look reads a state as of now, for a cost.
	look(s State, now, cost int64) Raw
	available(r Raw, now int64) int64
	// earliest returns the first time, now or later, at which the cost can be taken that
	// r was read for, or one permit more than are available.
	earliest(r Raw, now, cost int64) int64
	full(r Raw, now int64) int64
	// fits reports whether a charge can be kept that lies ahead.
	fits(s State, now, at, cost int64) bool
	// charge takes cost permits at a time, which is own, as earliest returned it, or later.
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
	// owing is a state that has taken so many permits, all of which are back at a time.
	owing(until, permits, now int64) State
	// recovery returns the longest time until all is back that is taken now.
	recovery(now int64) int64
}

// reserveAhead is how many periods, this one included, a reservation can lie ahead.
const reserveAhead = 4

// used returns the permits that are not available.
func (r *Rule) used(s State, now int64) int64 {
	return r.Capacity - r.alg.available(r.alg.look(s, now, 0), now)
}

// Earliest returns the first time, now or later, at which a cost can be taken that raw was read for.
func (r *Rule) Earliest(raw Raw, now, cost int64) int64 { return r.alg.earliest(raw, now, cost) }

// Report says how a key stands under one limit.
func (r *Rule) Report(raw Raw, now int64, to *Result) {
	to.Limit, to.Remaining = r.Capacity, r.alg.available(raw, now)
	to.NextAfter = r.nextAfter(raw, now, to.Remaining)
	to.FullAfter = time.Duration(r.alg.full(raw, now) - now)
}

// nextAfter returns when there will be one permit more than so many that are available.
func (r *Rule) nextAfter(raw Raw, now, available int64) time.Duration {
	if available == r.Capacity {
		return 0
	}
	return time.Duration(r.alg.earliest(raw, now, available+1) - now)
}
