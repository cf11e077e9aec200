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

// refundOfTwo refunds one of two takes of a bucket at once, which lets the other recover sooner, and the
// other one after that, when the bucket owes for later takes.
func refundOfTwo(s *suite) {
	id := s.plan(ratelimit.TokenBucket(4, 4*s.Unit, 4))
	back := func(take limits.Result) limits.Result {
		s.Helper()
		return s.apply("k", id, limits.Op{Kind: limits.Refund, Cost: take.Permits, Receipt: take.Receipt})
	}
	first, second := s.take("k", id, 2), s.take("k", id, 2)
	r := back(first)
	s.fatalIf(r.Remaining != 2, "the refund of the first take left %d, want 2", r.Remaining)
	time.Sleep(2*s.Unit + s.Slack)
	s.granted(s.take("k", id, 4), 4, 0)
	r = back(second)
	s.fatalIf(r.Remaining != 0, "the refund of a take that had recovered left %d, want 0", r.Remaining)
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

// refundOfAll leaves windows in which nothing is used: they end when they said.
func refundOfAll(s *suite) {
	wholly := func(key string, id *limits.Plan, take limits.Result) {
		s.Helper()
		r := s.apply(key, id, limits.Op{Kind: limits.Refund, Cost: take.Permits, Receipt: take.Receipt})
		s.fatalIf(r.Remaining != r.Limit || r.NextAfter != 0 || r.FullAfter != 0, "%s: after the refund of all %+v", key, r)
	}
	id := s.plan(ratelimit.FixedWindow(4, 2*s.Unit))
	wholly("w", id, s.take("w", id, 3))
	joined := s.plan(ratelimit.FixedWindow(4, 2*s.Unit).And(ratelimit.SlidingLog(9, 1000*s.Unit)))
	wholly("joined", joined, s.take("joined", joined, 3))
	counter := s.plan(ratelimit.SlidingCounter(4, 2*s.Unit))
	wholly("c", counter, s.take("c", counter, 3))
	wholly("later", id, s.take("later", id, 3))
	time.Sleep(s.Unit)
	r := s.take("w", id, 4)
	s.granted(r, 4, 0)
	s.near("FullAfter", r.FullAfter, s.Unit)
	s.refused(s.take("w", id, 1), s.Unit)
	wholly("w", id, r)
	s.granted(s.take("w", id, 1), 1, 3)
	r = s.take("joined", joined, 4)
	s.granted(r, 4, 0)
	s.near("NextAfter", r.NextAfter, s.Unit)
	r = s.take("c", counter, 4)
	s.granted(r, 4, 0)
	s.near("FullAfter", r.FullAfter, 3*s.Unit) // to the end of the window after
	time.Sleep(s.Unit + s.Slack)
	s.granted(s.take("w", id, 4), 4, 0)
	r = s.take("later", id, 4) // that window is over: this is a new one
	s.granted(r, 4, 0)
	s.near("FullAfter", r.FullAfter, 2*s.Unit)
}
