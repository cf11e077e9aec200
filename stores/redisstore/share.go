package redisstore

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// share is the part of a limit that is each of n instances': all of them together never have more
// than the limit. A window of fewer permits than instances is one permit in several periods, in its turn.
func share(l ratelimit.Limit, n int64) ratelimit.Limit {
	s := l
	switch {
	case n <= 1:
	case l.Algorithm == ratelimit.AlgorithmTokenBucket:
		s.Burst = max(1, l.Burst/n)
		if l.Permits%n != 0 && n <= int64(ratelimit.MaxPeriod/l.Period) {
			if s.Period *= time.Duration(n); s.Validate() == nil {
				break
			}
		}
		s.Permits, s.Period = max(1, l.Permits/n), l.Period // one that takes years, or is of odd numbers, is cut
	case l.Permits >= n:
		s.Permits = l.Permits / n
	default:
		s = ratelimit.FixedWindow(1, l.Period*time.Duration(min(turns(l, n), int64(ratelimit.MaxPeriod/l.Period))))
	}
	return s
}

// turns is how many periods there are until each of n instances has had its turn.
func turns(l ratelimit.Limit, n int64) int64 { return (n + l.Permits - 1) / l.Permits }

// turn is how long it is from a time, in µs, to the turn of an instance. Periods are counted from
// the epoch, so in each it is that of no more instances than there are permits.
func turn(l ratelimit.Limit, n, rank, from int64) time.Duration {
	of, period := turns(l, n), l.Period.Microseconds()
	number := from / period
	wait := (rank*of/n - number%of + of) % of
	if wait == 0 {
		return 0
	}
	return micros((number+wait)*period - from)
}

// shares is the part of the limits of a plan. Two windows that come to be of one kind are one,
// the smaller.
func (p *plan) shares(n int64) ratelimit.Limit {
	var all []ratelimit.Limit
next:
	for _, part := range p.parts {
		s := share(part.limit, n)
		for i, other := range all {
			other.Permits = s.Permits
			if other == s {
				all[i].Permits = min(all[i].Permits, s.Permits)
				continue next
			}
		}
		all = append(all, s)
	}
	joined := all[0]
	for _, s := range all[1:] {
		joined = joined.And(s)
	}
	return joined
}
