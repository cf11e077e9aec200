package share

import (
	"math"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// split returns the part of a limit for each of n instances: all parts together never exceed the limit. If its capacity
// is less than n, the part is one permit in a turn.
func split(l limits.Spec, n int64) limits.Spec {
	s := l
	switch {
	case n <= 1:
	case l.Algorithm == limits.TokenBucket:
		s.Burst = max(1, l.Burst/n)
		if l.Permits%n != 0 && n <= int64(limits.MaxPeriod/l.Period) {
			if s.Period *= time.Duration(n); (limits.Clock{}).Rule(s) != nil {
				break
			}
		}
		// The exact rate has too long a period or cannot be counted: it is rounded down.
		if s.Permits, s.Period = l.Permits/n, l.Period; s.Permits == 0 {
			s.Permits, s.Period = 1, min(mulDiv(n, int64(l.Period), l.Permits), limits.MaxPeriod)
		}
	case l.Permits >= n:
		s.Permits = l.Permits / n
	default:
		s = limits.Spec{Permits: 1, Period: l.Period * time.Duration(min(rounds(l, n), int64(limits.MaxPeriod/l.Period)))}
	}
	return s
}

// split returns the share of each limit of a plan. Windows that differ only in their permits after the split are merged
// into the smaller one.
func (p *plan) split(n int64) []limits.Spec {
	var all []limits.Spec
next:
	for _, part := range p.parts {
		s := split(part.limit, n)
		for i, other := range all {
			other.Permits = s.Permits
			if other == s {
				all[i].Permits = min(all[i].Permits, s.Permits)
				continue next
			}
		}
		all = append(all, s)
	}
	return all
}

// inTurn reports whether n instances take turns, since the capacity of the limit is less than n.
func inTurn(l limits.Spec, n int64) bool { return limits.Capacity(l) < n }

// rounds returns the number of periods until each of n instances has had its turn.
func rounds(l limits.Spec, n int64) int64 { return (n + l.Permits - 1) / l.Permits }

// turn returns the time from now to the turn of an instance, by the clock that all share. With a window, as many
// instances have a turn in a period as it has permits. With a bucket, one turn follows the other, each as long as it
// takes to refill one permit.
func turn(l limits.Spec, in instances) time.Duration {
	slots, slot := in.n, in.rank
	cycle := mulDiv(in.n, int64(l.Period), l.Permits)
	if l.Algorithm != limits.TokenBucket {
		slots = rounds(l, in.n)
		slot = in.rank * slots / in.n
		cycle = mulDiv(slots, int64(l.Period), 1)
	}
	begin, end := mulDiv(slot, int64(cycle), slots), mulDiv(slot+1, int64(cycle), slots)
	switch at := in.now % cycle; {
	case at < begin:
		return begin - at
	case at >= end:
		return cycle - at + begin
	}
	return 0
}

// mulDiv returns a*b/c rounded up, at most the largest duration.
func mulDiv(a, b, c int64) time.Duration {
	q, _ := limits.MulDiv(a, b, c, math.MaxInt64)
	return time.Duration(q)
}

// recovery returns the longest time that a take needs to recover.
func recovery(l limits.Spec) time.Duration {
	if l.Algorithm == limits.SlidingCounter {
		return 2 * l.Period
	}
	d, _ := limits.FillTime(l)
	return d
}
