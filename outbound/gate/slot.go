package gate

import (
	"math"
	"slices"
	"time"
)

// A slot is the time of a call under one limit.
type slot struct {
	at   time.Time // zero: none
	cost int64
	mark uint64   // its number in the usage
	by   *granted // nil unless the Store has given it
}

// usage is what a limit has counted for one key. A call takes its slot when it is sent, which can be long after its admission, as when it
// has to dial. So admissions are paced too, and stop while more than one connected call waits for its slot.
type usage struct {
	*limit // with a spacing of 0, nothing is counted

	tail   time.Time // when the usage has recovered, by the spacing of the limit
	pace   time.Time // the same for admissions
	last   time.Time // the latest slot that was given
	mark   uint64    // the number of the slot that was given last
	lows   []low     // in the order of their marks
	spares []slot    // slots that were given back and can still be used
}

const (
	maxSpares = 64
	maxLead   = 500 * time.Millisecond // between an admission and its slot
)

// counts reports whether a claim needs a slot.
func (cl *claim) counts() bool { return cl.N > 0 && cl.cost > 0 }

// old reports whether a claim needs a slot, because it has none or one that is too old at a time.
func (cl *claim) old(at time.Time) bool {
	return cl.counts() && (cl.slot.at.IsZero() || at.After(cl.slot.at.Add(cl.shelf)))
}

// ahead returns the time from which a call of a cost can be sent if the usage has recovered at tail.
func (u *usage) ahead(tail time.Time, cost int64) time.Time {
	return tail.Add(-span(u.burst-cost, u.spacing))
}

// admission returns the earliest time at which a call can be admitted.
func (u *usage) admission(cost int64, now time.Time) time.Time {
	at, _ := u.next(cost, now)
	return later(at.Add(-min(u.spacing, maxLead)), u.ahead(u.pace, cost))
}

// admit counts an admission. A timer that fires a little late does not lower the rate.
func (u *usage) admit(cost int64, now time.Time) {
	if u.pace.Before(now.Add(-u.shelf / 2)) {
		u.pace = now
	}
	u.pace = u.pace.Add(span(cost, u.spacing))
}

// next returns the earliest slot from a time on, and its index if it is a spare, or -1. The slot can be a little before that time, so that
// a late timer does not lower the rate.
func (u *usage) next(cost int64, from time.Time) (at time.Time, spare int) {
	early := from.Add(-u.shelf / 2)
	if at = u.ahead(u.tail, cost); at.Before(early) {
		at = from
	}
	spare = -1
	for i, s := range u.spares {
		if s.cost >= cost && s.at.Before(at) && !s.at.Before(early) {
			at, spare = s.at, i
		}
	}
	return at, spare
}

// take gives the slot of next.
func (u *usage) take(cost int64, from time.Time) slot {
	at, spare := u.next(cost, from)
	if spare >= 0 {
		s := u.spares[spare]
		u.spares = slices.Delete(u.spares, spare, spare+1)
		s.cost = cost
		return s
	}
	u.given(max(0, u.tail.Sub(at)))
	u.tail, u.last = later(u.tail, at).Add(span(cost, u.spacing)), later(u.last, at)
	return slot{at: at, cost: cost, mark: u.mark}
}

// put takes back a slot that was not used. If it is the last one that was given, the usage is reduced by it; otherwise a later call can use
// it.
func (u *usage) put(s slot, now time.Time) {
	old := func(s slot) bool { return now.After(s.at.Add(u.shelf)) }
	switch {
	case s.at.IsZero() || s.by != nil:
	case u.mark == s.mark:
		u.tail = u.tail.Add(-span(s.cost, u.spacing))
		u.mark--
	case !old(s):
		if u.spares = slices.DeleteFunc(u.spares, old); len(u.spares) < maxSpares {
			u.spares = append(u.spares, s)
		}
	}
}

// change counts the usage under another limit: as many units as before, and no new slot before one that was given.
func (u *usage) change(to *limit, now time.Time) {
	base := later(now, u.last)
	switch over := u.tail.Sub(base); {
	case to.spacing == 0 || u.spacing == 0 || over <= 0:
		u.tail = later(u.tail, u.last)
	case to.spacing != u.spacing:
		more := math.Ceil(float64(over) / float64(u.spacing) * float64(to.spacing))
		u.tail = later(base.Add(time.Duration(min(more, math.MaxInt64/2))), u.last.Add(to.spacing))
	}
	if to.spacing != u.spacing {
		u.mark++ // no slot is the last one
		u.lows, u.spares, u.pace = []low{{mark: u.mark}}, nil, time.Time{}
	}
	u.limit, u.tail = to, later(u.tail, to.from)
}

// span returns n times d, or the longest duration.
func span(n int64, d time.Duration) time.Duration {
	if d > 0 && n > math.MaxInt64/int64(d) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
