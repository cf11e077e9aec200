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
	tail time.Time // of the scope, once this slot was given
}

// fresh reports whether a call can be sent in the slot.
func (s slot) fresh(now time.Time, shelf time.Duration) bool {
	return !s.at.IsZero() && !s.at.After(now) && !now.After(s.at.Add(shelf))
}

// usage is what a limit has counted of one key. A call takes its slot when it is sent, which can be long after its admission, as when it
// has to dial. So admissions are paced too, and stop while more than one connected call waits for its slot.
type usage struct {
	tail   time.Time // when the usage is over, by the spacing of the limit
	pace   time.Time // the same for admissions
	last   time.Time // the latest slot that was given
	spares []slot    // that were given back, and can still be used
}

const (
	maxSpares = 64
	maxLead   = 500 * time.Millisecond // of an admission before the slot
)

// admission returns the earliest time at which a call can be admitted.
func (u *usage) admission(l *limit, cost int64, now time.Time, shelf time.Duration) time.Time {
	at, _ := u.next(l, cost, now, shelf)
	return later(at.Add(-min(l.spacing, maxLead)), u.pace.Add(-span(l.burst-cost, l.spacing)))
}

// admit counts an admission. One that a timer has delayed does not slow the rate.
func (u *usage) admit(l *limit, cost int64, now time.Time, shelf time.Duration) {
	if late := now.Add(-shelf / 2); u.pace.Before(late) {
		u.pace = now
	}
	u.pace = u.pace.Add(span(cost, l.spacing))
}

// next returns the earliest slot from a time on, and the index of the spare that it is, or -1. A slot can begin a moment before that
// time, for the same reason.
func (u *usage) next(l *limit, cost int64, from time.Time, shelf time.Duration) (at time.Time, spare int) {
	if at = u.tail.Add(-span(l.burst-cost, l.spacing)); at.Before(from.Add(-shelf / 2)) {
		at = from
	}
	spare = -1
	for i, s := range u.spares {
		if s.cost >= cost && s.at.Before(at) && !s.at.Before(from.Add(-shelf/2)) {
			at, spare = s.at, i
		}
	}
	return at, spare
}

// take gives the slot of next.
func (u *usage) take(l *limit, cost int64, from time.Time, shelf time.Duration) slot {
	at, spare := u.next(l, cost, from, shelf)
	if spare >= 0 {
		s := u.spares[spare]
		u.spares = slices.Delete(u.spares, spare, spare+1)
		return s
	}
	u.tail = later(u.tail, at).Add(span(cost, l.spacing))
	u.last = later(u.last, at)
	return slot{at: at, cost: cost, tail: u.tail}
}

// put takes a slot back that was not used: the last one is as if it had not been given, another one can be used by a later call.
func (u *usage) put(l *limit, s slot, now time.Time, shelf time.Duration) {
	switch {
	case s.at.IsZero():
	case u.tail.Equal(s.tail):
		u.tail = u.tail.Add(-span(s.cost, l.spacing))
	case now.Before(s.at.Add(shelf)):
		u.spares = slices.DeleteFunc(u.spares, func(s slot) bool { return now.After(s.at.Add(shelf)) })
		if len(u.spares) < maxSpares {
			u.spares = append(u.spares, s)
		}
	}
}

// change counts the usage under another limit: as many units as before, and nothing before a slot that was given.
func (u *usage) change(from, to *limit, now time.Time) {
	u.spares, u.pace = nil, time.Time{}
	base := later(now, u.last)
	if over := u.tail.Sub(base); from == nil || from.spacing == 0 || to == nil || over <= 0 {
		u.tail = later(u.tail, base)
	} else {
		u.tail = base.Add(span(int64((over+from.spacing-1)/from.spacing), to.spacing))
	}
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
