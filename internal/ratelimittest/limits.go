package ratelimittest

import (
	"strconv"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func aligned(s *suite) {
	id := s.plan(ratelimit.AlignedWindow(3, 1000*time.Hour))
	r := s.take("k", id, 3)
	s.granted(r, 3, 0)
	now := time.Now()
	s.near("FullAfter", r.FullAfter, now.Truncate(time.Hour).Sub(now)+time.Hour*time.Duration(1000-now.Unix()/3600%1000)+s.Slack)
	s.refused(s.take("k", id, 1), r.FullAfter)
}

func alignedOfMany(s *suite) {
	for _, n := range []int64{1e9, limits.MaxPermits} {
		key, id := strconv.FormatInt(n, 10), s.plan(ratelimit.AlignedWindow(n, 2*s.Unit))
		all := limits.Op{Kind: limits.TakeAtMost, Cost: n}
		if r := s.apply(key, id, all); r.FullAfter < s.Unit { // too near its end for what follows
			time.Sleep(r.FullAfter + s.Slack)
			s.apply(key, id, all)
		}
		r := s.take(key, id, 1)
		s.fatalIf(r.Allowed || r.Remaining != 0 || r.RetryAfter <= 0, "take 1 of 0 = %+v", r)
		time.Sleep(r.RetryAfter - 1)
		s.fatalIf(s.Slack == 0 && s.take(key, id, 1).Allowed, "allowed before its time")
		time.Sleep(1 + s.Slack)
		s.granted(s.take(key, id, 0), 0, n)
		r = s.take(key, id, n)
		s.granted(r, n, 0)
		s.near("FullAfter", r.FullAfter+s.Slack, 2*s.Unit)
	}
}

func slidingWindow(s *suite) {
	id := s.plan(ratelimit.SlidingWindow(2, 2*s.Unit, 2))
	s.granted(s.take("k", id, 2), 2, 0)
	r := s.take("k", id, 1)
	s.fatalIf(r.Allowed || r.RetryAfter <= s.Unit-s.Slack || r.RetryAfter > 2*s.Unit,
		"take 1 of 0 = %+v, want to wait more than a segment and at most a period", r)
	time.Sleep(r.RetryAfter - 1)
	s.fatalIf(s.Slack == 0 && s.take("k", id, 1).Allowed, "allowed before its time")
	time.Sleep(1 + s.Slack)
	s.granted(s.take("k", id, 2), 2, 0) // the whole segment stepped out
}

func slidingCounter(s *suite) {
	id := s.plan(ratelimit.SlidingCounter(4, s.Unit))
	s.granted(s.take("k", id, 4), 4, 0)
	s.refused(s.take("k", id, 1), 5*s.Unit/4)
	time.Sleep(5 * s.Unit / 4)
	s.granted(s.take("k", id, 1), 1, 0)
	s.refused(s.take("k", id, 4), 7*s.Unit/4) // the one counts to the end of the window after
}

func slidingLog(s *suite) {
	id := s.plan(ratelimit.SlidingLog(2, s.Unit))
	s.granted(s.take("k", id, 1), 1, 1)
	time.Sleep(s.Unit / 2)
	s.granted(s.take("k", id, 1), 1, 0)
	s.refused(s.take("k", id, 1), s.Unit/2)
	s.refused(s.take("k", id, 2), s.Unit)
	time.Sleep(s.Unit/2 + s.Slack)
	s.granted(s.take("k", id, 1), 1, 0)
}

// several checks that joined limits are one step: if the first refuses, the second is not charged.
func several(s *suite) {
	short, long := ratelimit.FixedWindow(3, s.Unit), ratelimit.TokenBucket(5, 1000*s.Unit, 5)
	id, second := s.plan(short.And(long)), s.plan(long)
	s.granted(s.take("k", id, 3), 3, 0)
	r := s.take("k", id, 1)
	s.refused(r, s.Unit)
	s.fatalIf(r.Limit != 3 || r.Which != 0, "refused by the first, got %+v", r)
	s.granted(s.take("k", second, 0), 0, 2)
	time.Sleep(s.Unit + s.Slack)
	first := s.take("k", id, 2)
	s.granted(first, 2, 0)
	s.fatalIf(first.Limit != 5 || first.Which != 1, "the second has least left, got %+v", first)
	r = s.apply("k", id, limits.Op{Kind: limits.TakeAtMost, Cost: 9})
	s.fatalIf(r.Allowed || r.Which != 1, "at most 9 of 0 = %+v", r)
	s.apply("k", id, limits.Op{Kind: limits.Refund, Cost: 2, Receipt: first.Receipt})
	s.granted(s.take("k", s.plan(short), 0), 0, 3)
	s.granted(s.take("k", second, 0), 0, 2)
	s.apply("k", id, limits.Op{Kind: limits.Reset})
	s.granted(s.take("k", second, 0), 0, 5)
	longer := ratelimit.FixedWindow(3, 1000*s.Unit)
	for _, both := range []ratelimit.Limit{short.And(longer), longer.And(short)} {
		r = s.take(both.String(), s.plan(both), 3)
		s.granted(r, 3, 0)
		s.fatalIf(r.NextAfter <= s.Unit, "the longer limit has its next permit last, got %+v", r)
	}
}

func check(s *suite) {
	for key, id := range s.each(3, time.Hour) {
		for range 5 {
			s.granted(s.apply(key, id, limits.Op{Kind: limits.Check, Cost: 3}), 0, 3)
		}
		s.granted(s.take(key, id, 2), 2, 1)
		r := s.apply(key, id, limits.Op{Kind: limits.Check, Cost: 2})
		s.fatalIf(r.Allowed || r.RetryAfter <= 0 || r.Remaining != 1, "%s: check of 2 of 1 = %+v", key, r)
	}
}
