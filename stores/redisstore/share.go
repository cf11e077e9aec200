package redisstore

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// share returns the part of a limit for each of n instances: all parts together never exceed the
// limit. If a window has fewer permits than instances, the part is one permit in several periods,
// in turns.
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
		s.Permits, s.Period = max(1, l.Permits/n), l.Period // rounded down, if the exact rate has too long a period or cannot be counted
	case l.Permits >= n:
		s.Permits = l.Permits / n
	default:
		s = ratelimit.FixedWindow(1, l.Period*time.Duration(min(turns(l, n), int64(ratelimit.MaxPeriod/l.Period))))
	}
	return s
}

// turns returns the number of periods until each of n instances has had its turn.
func turns(l ratelimit.Limit, n int64) int64 { return (n + l.Permits - 1) / l.Permits }

// turn returns the time from a moment, in µs, to the turn of an instance. Periods are counted from
// the epoch, so in each period no more instances have their turn than there are permits.
func turn(l ratelimit.Limit, n, rank, from int64) time.Duration {
	of, period := turns(l, n), l.Period.Microseconds()
	number := from / period
	wait := (rank*of/n - number%of + of) % of
	if wait == 0 {
		return 0
	}
	return micros((number+wait)*period - from)
}

// shares returns the share of each limit of a plan. Windows that become the same kind are merged
// into the smaller one.
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
