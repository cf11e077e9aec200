package ratelimittest

import (
	"context"
	"sync"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// each returns the plans of a limit of every algorithm, and of several together.
func (s *suite) each(n int64, period time.Duration) map[string]*limits.Plan {
	s.Helper()
	return map[string]*limits.Plan{
		"window":  s.plan(ratelimit.FixedWindow(n, period)),
		"bucket":  s.plan(ratelimit.TokenBucket(n, period, n)),
		"sliding": s.plan(ratelimit.SlidingWindow(n, period, 2)),
		"counter": s.plan(ratelimit.SlidingCounter(n, period)),
		"log":     s.plan(ratelimit.SlidingLog(n, period)),
		"several": s.plan(ratelimit.FixedWindow(n, period).And(ratelimit.SlidingLog(n, period)).And(ratelimit.TokenBucket(n, period, n))),
	}
}

func refusal(s *suite) {
	for key, id := range s.each(10, time.Hour) {
		s.granted(s.take(key, id, 5), 5, 5)
		for range 8 {
			r := s.take(key, id, 6)
			s.fatalIf(r.Allowed || r.Remaining != 5, "take 6 of 5 = %+v", r)
		}
		s.granted(s.take(key, id, 5), 5, 0)
	}
}

func times(s *suite) {
	id := s.plan(ratelimit.FixedWindow(5, time.Hour))
	first := s.take("k", id, 5)
	time.Sleep(s.Unit / 5)
	for _, op := range []limits.Op{
		{Kind: limits.Take, Cost: 1},
		{Kind: limits.Take, Cost: 6},
		{Kind: limits.Take},
		{Kind: limits.TakeAtMost, Cost: 1},
		{Kind: limits.Reserve, Cost: 1},
		{Kind: limits.Check, Cost: 1},
		{Kind: limits.Drain},
		{Kind: limits.Refund, Cost: 5, Receipt: first.Receipt},
		{Kind: limits.Take, Cost: 1},
		{Kind: limits.Reset},
	} {
		at := s.apply("k", id, op).Receipt.At
		s.fatalIf(at >= 0 && at <= first.Receipt.At,
			"Receipt.At of %+v = %d, want more than %d of the take before, or less than 0", op, at, first.Receipt.At)
	}
}

func never(s *suite) {
	for key, id := range s.each(5, time.Hour) {
		s.granted(s.take(key, id, 1), 1, 4)
		for _, kind := range []limits.OpKind{limits.Take, limits.Reserve} {
			r := s.apply(key, id, limits.Op{Kind: kind, Cost: 6, MaxWait: 24 * time.Hour})
			s.fatalIf(r.Allowed || r.RetryAfter != limits.Never || r.Remaining != 4, "%v of 6 = %+v, want never and 4 remaining", kind, r)
		}
	}
}

func peek(s *suite) {
	for key, id := range s.each(3, time.Hour) {
		r := s.take(key, id, 0)
		s.granted(r, 0, 3)
		s.fatalIf(r.FullAfter != 0 || r.NextAfter != 0, "a new key is full: %+v", r)
		s.granted(s.take(key, id, 3), 3, 0)
		for range 4 {
			s.granted(s.take(key, id, 0), 0, 0)
		}
	}
}

func atMost(s *suite) {
	for key, id := range s.each(10, time.Hour) {
		op := func(n int64) limits.Result {
			return s.apply(key, id, limits.Op{Kind: limits.TakeAtMost, Cost: n})
		}
		s.granted(op(1), 1, 9)
		s.granted(op(2), 2, 7)
		s.granted(op(1<<62), 7, 0)
		r := op(1)
		s.fatalIf(r.Allowed || r.Permits != 0 || r.RetryAfter <= 0, "at most 1 of 0 = %+v", r)
	}
}

func reset(s *suite) {
	id := s.plan(ratelimit.FixedWindow(3, time.Hour))
	s.granted(s.take("k", id, 3), 3, 0)
	r := s.apply("k", id, limits.Op{Kind: limits.Reset})
	s.fatalIf(r.Remaining != 3, "reset = %+v", r)
	s.granted(s.take("k", id, 3), 3, 0)
}

func keys(s *suite) {
	id := s.plan(ratelimit.FixedWindow(2, time.Hour))
	s.granted(s.take("a", id, 2), 2, 0)
	s.granted(s.take("b", id, 1), 1, 1)
	s.granted(s.take("", id, 2), 2, 0)
	s.granted(s.take("a\x00", id, 1), 1, 1)
}

func strangeKeys(s *suite) {
	id := s.plan(ratelimit.FixedWindow(1, time.Hour))
	long := make([]byte, 10_000)
	for _, key := range []string{"", " ", "}{", "{a}", "\x00", "\xff\xfe", "a\nb", "ключ", string(long), string(long[1:])} {
		s.granted(s.take(key, id, 1), 1, 0)
		r := s.take(key, id, 1)
		s.fatalIf(r.Allowed, "second take of %.20q: %+v", key, r)
	}
}

func plans(s *suite) {
	hundred, ten := s.plan(ratelimit.FixedWindow(100, time.Hour)), s.plan(ratelimit.FixedWindow(10, time.Hour))
	thousand := s.plan(ratelimit.SlidingLog(1000, time.Hour))
	s.granted(s.take("w", hundred, 4), 4, 96)
	s.granted(s.take("w", ten, 1), 1, 5)
	s.granted(s.take("w", thousand, 1), 1, 994)
	s.granted(s.take("w", hundred, 46), 46, 48)
	s.granted(s.take("w", thousand, 0), 0, 948)
	r := s.take("w", ten, 1)
	s.fatalIf(r.Allowed || r.Remaining != 0, "52 of 10 are taken: %+v", r)
	s.granted(s.take("w", s.plan(ratelimit.SlidingCounter(60, time.Hour)), 0), 0, 8)
}

// overdrawn is a key that has more taken than a lower limit has at all.
func overdrawn(s *suite) {
	high, low := s.plan(ratelimit.FixedWindow(100, s.Unit)), s.plan(ratelimit.FixedWindow(10, s.Unit))
	first := s.take("w", high, 50)
	s.granted(first, 50, 50)
	time.Sleep(s.Unit / 4)
	s.refused(s.take("w", low, 1), s.Unit-s.Unit/4) // what the higher one gives back
	r := s.apply("w", low, limits.Op{Kind: limits.Reserve, Cost: 1, MaxWait: s.Unit / 2})
	s.fatalIf(r.Allowed, "a reservation of permits that are taken: %+v", r)
	s.granted(s.take("w", high, 1), 1, 49) // nothing of it is forgotten
	time.Sleep(s.Unit + s.Slack)
	s.granted(s.take("w", low, 10), 10, 0)
	s.apply("w", high, limits.Op{Kind: limits.Refund, Cost: 50, Receipt: first.Receipt})
	s.granted(s.take("w", high, 0), 0, 90)

	small := s.take("r", low, 1)
	s.granted(s.take("r", high, 59), 59, 40)
	s.apply("r", low, limits.Op{Kind: limits.Refund, Cost: 1, Receipt: small.Receipt})
	s.granted(s.take("r", high, 0), 0, 40) // it was counted under other numbers
	s.granted(s.take("r", low, 0), 0, 0)
}

func samePlan(s *suite) {
	l := ratelimit.TokenBucket(3, time.Second, 3)
	if a, b := s.plan(l), s.plan(ratelimit.TokenBucket(3, time.Second, 3)); a != b {
		s.Errorf("the same limit is plan %p and %p", a, b)
	}
	if a, b := s.plan(ratelimit.Limit{}), s.plan(ratelimit.PerMinute(1000)); a != b {
		s.Errorf("the zero limit is plan %p, its meaning %p", a, b)
	}
}

func nonsense(s *suite) {
	id := s.plan(ratelimit.PerSecond(1))
	if r, err := s.table.Apply(context.Background(), "k", id, limits.Op{Cost: -1}); err == nil {
		s.Errorf("a negative cost decided %+v", r)
	}
}

func concurrent(s *suite) {
	for key, id := range s.each(100, 100*time.Hour) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		left := map[int64]int{}
		for range 16 {
			wg.Go(func() {
				for range 20 {
					r, err := s.table.Apply(context.Background(), key, id, limits.Op{Cost: 1})
					if err != nil {
						s.Errorf("Apply: %v", err)
					}
					if r.Allowed {
						mu.Lock()
						left[r.Remaining]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for i := range int64(100) {
			if left[i] != 1 {
				s.Errorf("%s: %d takes left %d remaining, want one", key, left[i], i)
			}
		}
		if len(left) != 100 {
			s.Errorf("%s: %d takes granted, want 100", key, len(left))
		}
	}
}

func closed(s *suite) {
	id := s.plan(ratelimit.PerSecond(1))
	s.ok(s.store.Close())
	if r, err := s.table.Apply(context.Background(), "k", id, limits.Op{Cost: 1}); err == nil {
		s.Errorf("a closed store decided %+v", r)
	}
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
