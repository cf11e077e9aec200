package redisstore

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// share is the part of a limit that is each of n instances': all of them together never have more
// than the limit. A window of fewer permits than instances is one permit in several periods.
func share(l ratelimit.Limit, n int64) ratelimit.Limit {
	s := l
	switch {
	case n <= 1:
	case l.Algorithm == ratelimit.TokenBucket:
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
		periods := (n + l.Permits - 1) / l.Permits
		s.Permits, s.Period = 1, l.Period*time.Duration(min(periods, int64(ratelimit.MaxPeriod/l.Period)))
	}
	return s
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
