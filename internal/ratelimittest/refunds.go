package ratelimittest

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func refund(s *suite) {
	for key, id := range s.each(10, time.Hour) {
		first := s.take(key, id, 4)
		s.granted(s.take(key, id, 5), 5, 1)
		back := s.apply(key, id, limits.Op{Kind: limits.Refund, Cost: 4, Receipt: first.Receipt})
		s.fatalIf(back.Remaining != 5, "%s: after the refund %+v, want 5 remaining", key, back)
		s.granted(s.take(key, id, 5), 5, 0)
	}
}

func lateRefund(s *suite) {
	ids, early := s.each(4, s.Unit), map[string]limits.Result{}
	for key, id := range ids {
		early[key] = s.take(key, id, 4)
		s.granted(early[key], 4, 0)
	}
	time.Sleep(2*s.Unit + s.Slack)
	for key, id := range ids {
		s.granted(s.take(key, id, 4), 4, 0)
		r := s.apply(key, id, limits.Op{Kind: limits.Refund, Cost: 4, Receipt: early[key].Receipt})
		s.fatalIf(r.Remaining != 0, "%s: a late refund left %d, want 0", key, r.Remaining)
	}
	id := s.plan(ratelimit.TokenBucket(4, 4*s.Unit, 4))
	r := s.take("fresh", id, 4)
	time.Sleep(4*s.Unit + s.Slack)
	s.apply("fresh", id, limits.Op{Kind: limits.Refund, Cost: 4, Receipt: r.Receipt})
	s.granted(s.take("fresh", id, 4), 4, 0)
	r = s.take("fresh", id, 1)
	s.fatalIf(r.Allowed, "a refund into a full bucket minted: %+v", r)
}

// refundUnderAnother refunds takes under one limit while another is in force.
func refundUnderAnother(s *suite) {
	before := s.each(10, time.Hour)
	for key, id := range s.each(6, time.Hour) {
		was := before[key]
		first := s.take(key, was, 1)
		s.granted(s.take(key, was, 3), 3, 6)
		r := s.apply(key, id, limits.Op{Kind: limits.Refund, Cost: 1, Receipt: first.Receipt})
		stands := s.take(key, id, 0)
		s.fatalIf(r.Limit != 6 || r.Permits != 0 || r.Remaining != stands.Remaining || r.Which != stands.Which,
			"%s: the refund of a take under another limit = %+v, want how the key stands, %+v", key, r, stands)
		s.granted(s.take(key, was, 0), 0, 7)
	}
	// Use that was carried over to another limit stays there.
	window, bucket := s.plan(ratelimit.FixedWindow(9, time.Hour)), s.plan(ratelimit.TokenBucket(5, 1000*time.Hour, 5))
	first := s.take("kinds", window, 3)
	s.granted(s.take("kinds", bucket, 1), 1, 1)
	r := s.apply("kinds", bucket, limits.Op{Kind: limits.Refund, Cost: 3, Receipt: first.Receipt})
	s.fatalIf(r.Limit != 5 || r.Remaining != 1, "the refund of a take under a limit of another kind = %+v, want 1 of 5", r)
	s.granted(s.take("kinds", window, 0), 0, 5)
	last := s.take("kinds", bucket, 1)
	s.granted(s.take("kinds", window, 0), 0, 4)
	s.apply("kinds", bucket, limits.Op{Kind: limits.Refund, Cost: 1, Receipt: last.Receipt})
	s.granted(s.take("kinds", window, 0), 0, 5)
	s.granted(s.take("kinds", bucket, 0), 0, 1)
}
