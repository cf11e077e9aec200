package pace

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A setting has what follows from a Config.
type setting struct {
	Config   // with its defaults
	limit    ratelimit.Limit
	capacity int64         // the highest cost
	interval time.Duration // of the slowest rate, from one permit to the next on average
	fastest  time.Duration // likewise, of the fastest rate that can decide
	spacing  time.Duration // that of the slowest if the limit is one bucket, otherwise 0
	tickets  int64         // permits of one key that this process may have reserved ahead, at the slowest rate
}

func settings(c *Config) *setting {
	s := &setting{Config: *c}
	s.Rates = slices.Clone(c.Rates)
	s.Slack = cmp.Or(c.Slack, defaultSlack)
	s.MaxQueue = max(0, cmp.Or(c.MaxQueue, defaultMaxQueue))
	s.MaxWait = cmp.Or(c.MaxWait, never)
	s.RefreshEvery = cmp.Or(c.RefreshEvery, defaultRefreshEvery)
	s.capacity, s.fastest = math.MaxInt64, never
	var all []ratelimit.Limit
	for _, rate := range s.Rates {
		limit, interval := s.limitOf(rate)
		s.interval, s.fastest = max(s.interval, interval), min(s.fastest, interval)
		s.capacity = min(s.capacity, limits.Limit(limit).Capacity())
		all = append(all, limit)
	}
	if s.Mode == Rolling {
		if all = slowest(all); len(all) == 1 {
			s.spacing, s.fastest = s.interval, s.interval
		}
	}
	s.limit = all[0]
	for _, other := range all[1:] {
		s.limit = s.limit.And(other)
	}
	s.tickets = 1 + int64(lookAhead/s.interval)
	return s
}

// limitOf returns the limit that keeps a rate, and its average interval. See the package
// documentation for the reason.
func (s *setting) limitOf(rate Rate) (ratelimit.Limit, time.Duration) {
	span := rate.Per + s.Slack + s.Skew
	switch s.Mode {
	case FixedWindow:
		return ratelimit.AlignedWindow(rate.Calls, rate.Per), ceilDiv(rate.Per, rate.Calls)
	case SlidingLog:
		return ratelimit.SlidingLog(rate.Calls, span), ceilDiv(span, rate.Calls)
	case Rolling:
	}
	burst := cmp.Or(rate.Burst, 1)
	interval := ceilDiv(span, rate.Calls-burst+1)
	if interval > 10*time.Millisecond {
		interval = (interval + time.Microsecond - 1).Truncate(time.Microsecond) // any length can be counted in Redis
	}
	return ratelimit.TokenBucket(1, interval, burst), interval
}

func ceilDiv(d time.Duration, n int64) time.Duration {
	return (d + time.Duration(n) - 1) / time.Duration(n)
}

// slowest returns the buckets without those that another one implies: it is as slow, and has no
// larger burst.
func slowest(all []ratelimit.Limit) (kept []ratelimit.Limit) {
	for i, limit := range all {
		implied, l := false, limits.Limit(limit).Specs()[0]
		for j, other := range all {
			same, other := limit == other, limits.Limit(other).Specs()[0]
			implied = implied || i != j && other.Period >= l.Period && other.Burst <= l.Burst && (!same || j < i)
		}
		if !implied {
			kept = append(kept, limit)
		}
	}
	return kept
}
