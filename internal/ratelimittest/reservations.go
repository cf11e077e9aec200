package ratelimittest

import (
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func (s *suite) reserve(key string, id *limits.Plan, cost int64, wait time.Duration) {
	s.Helper()
	r := s.apply(key, id, limits.Op{Kind: limits.Reserve, Cost: cost, MaxWait: 10 * s.Unit})
	s.fatalIf(!r.Allowed || r.Permits != cost, "reserve %d = %+v", cost, r)
	s.near("Wait", r.Wait, wait)
}

func reservations(s *suite) {
	b := s.plan(ratelimit.TokenBucket(2, s.Unit, 2))
	s.reserve("b", b, 2, 0)
	s.reserve("b", b, 1, s.Unit/2)
	s.reserve("b", b, 2, 3*s.Unit/2)
	r := s.apply("b", b, limits.Op{Kind: limits.Reserve, Cost: 1, MaxWait: 3 * s.Unit / 2})
	s.refused(r, 2*s.Unit)
	s.reserve("b", b, 1, 2*s.Unit) // the refusal took no place

	w := s.plan(ratelimit.FixedWindow(3, s.Unit))
	s.reserve("w", w, 2, 0)
	s.reserve("w", w, 2, s.Unit) // not split over two windows
	s.reserve("w", w, 1, s.Unit)
	s.reserve("w", w, 1, 2*s.Unit)
	r = s.take("w", w, 1)
	s.fatalIf(r.Allowed, "a take overtook a reservation: %+v", r)
	time.Sleep(s.Unit + s.Slack)
	r = s.take("w", w, 1)
	s.fatalIf(r.Allowed, "the second window was reserved whole: %+v", r)
}

// tooFar reserves until a reservation is refused: the refusal has a RetryAfter, and reserves
// nothing.
func tooFar(s *suite) {
	w := s.plan(ratelimit.FixedWindow(1, s.Unit))
	granted := int64(0)
	for range 1000 {
		r := s.apply("w", w, limits.Op{Kind: limits.Reserve, Cost: 1, MaxWait: 1 << 62})
		if !r.Allowed {
			s.near("RetryAfter", r.RetryAfter, time.Duration(granted)*s.Unit)
			break
		}
		s.near("Wait", r.Wait, time.Duration(granted)*s.Unit)
		granted++
	}
	s.fatalIf(granted < 4, "%d reservations, want 4 or more", granted)
	b := s.plan(ratelimit.TokenBucket(999_999_937, s.Unit, 999_999_937))
	for range 1000 {
		r := s.apply("b", b, limits.Op{Kind: limits.Reserve, Cost: 999_999_937, MaxWait: 1 << 62})
		s.fatalIf(r.Wait < 0 || r.RetryAfter < 0 || r.Allowed == (r.RetryAfter > 0), "a bucket of large numbers: %+v", r)
	}
	r := s.take("b", b, 1)
	s.fatalIf(r.Allowed, "reservations wrapped around: %+v", r)
}
