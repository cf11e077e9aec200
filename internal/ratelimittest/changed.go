package ratelimittest

import (
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A held is a limiter over the store of the suite.
type held struct {
	*suite
	*ratelimit.Limiter
}

func (s *suite) limiter(name string, limit ratelimit.Limit) held {
	s.Helper()
	return s.held(ratelimit.Config{Name: name, Limit: limit})
}

func (s *suite) held(cfg ratelimit.Config) held {
	s.Helper()
	cfg.Store = s.store
	l, err := ratelimit.New(cfg)
	s.fatalIf(err != nil, "New(%+v): %v", cfg, err)
	s.Cleanup(func() { _ = l.Close() })
	return held{s, l}
}

func (l held) set(limit ratelimit.Limit) { SetLimit(l, l.Limiter, limit) }

func (l held) tier(limit ratelimit.Limit) held { return held{l.suite, Under(l, l.Limiter, limit)} }

func (l held) of(key string, n int64) limits.Result {
	l.Helper()
	r, err := l.Take(context.Background(), key, n)
	l.fatalIf(err != nil, "Take(%q, %d): %v", key, n, err)
	return limits.Result(r)
}

// kinds are single limits of every algorithm.
func kinds(n int64, period time.Duration) []ratelimit.Limit {
	return []ratelimit.Limit{
		ratelimit.FixedWindow(n, period), ratelimit.TokenBucket(n, period, n), ratelimit.SlidingWindow(n, period, 2),
		ratelimit.SlidingCounter(n, period), ratelimit.SlidingLog(n, period), ratelimit.AlignedWindow(n, 1000*period),
	}
}

// changed: any limit follows any other, and at least as many permits are left as the new one
// has more, at once.
func changed(s *suite) {
	for i, before := range kinds(10, 10*s.Unit) {
		for j, after := range kinds(30, 20*s.Unit) {
			l := s.limiter(fmt.Sprint("changed", i, j), before)
			l.granted(l.of("k", 10), 10, 0)
			l.set(after)
			l.granted(l.of("k", 20), 20, 0)
			r := l.of("k", 1)
			s.fatalIf(r.Allowed || r.RetryAfter <= 0, "%v to %v: %+v", before, after, r)
			l.set(ratelimit.TokenBucket(30, s.Unit, 30)) // a unit until it has recovered, or earlier
			r = l.of("k", 15)
			s.fatalIf(r.Allowed || r.RetryAfter > s.Unit/2+s.Slack, "%v to %v to a bucket: %+v", before, after, r)
		}
	}
}

// changedBack changes to a limit under which nothing is granted.
func changedBack(s *suite) {
	before := ratelimit.TokenBucket(10, 1000*s.Unit, 10)
	l := s.limiter("back", before)
	l.granted(l.of("k", 4), 4, 6)
	l.set(ratelimit.TokenBucket(1, limits.MaxPeriod, 1))
	r := l.of("k", 1)
	s.fatalIf(r.Allowed, "the change granted %+v", r)
	time.Sleep(s.Unit)
	l.set(before)
	l.granted(l.of("k", 6), 6, 0)
}

// changedChain sets all limits one after the other while a key takes as much as it can.
func changedChain(s *suite) {
	l := s.limiter("chain", ratelimit.FixedWindow(10, 1000*s.Unit))
	total := int64(0)
	for round := range 3 {
		for i, limit := range kinds(10, 1000*s.Unit) {
			if round > 0 || i > 0 {
				l.set(limit)
			}
			r, err := l.TakeAtMost(context.Background(), "k", 4)
			s.ok(err)
			total += r.Permits
		}
	}
	s.fatalIf(total != 10, "a chain of limits of 10 granted %d", total)
}

func changedKey(s *suite) {
	l := s.limiter("key", ratelimit.FixedWindow(10, 3600*s.Unit))
	l.granted(l.of("k", 10), 10, 0)
	s.ok(l.SetKeyLimit("k", ratelimit.FixedWindow(25, s.Unit)))
	l.granted(l.of("k", 15), 15, 0)
	l.granted(l.of("other", 1), 1, 9)
	s.ok(l.SetKeyLimit("k", ratelimit.Limit{}))
	l.refused(l.of("k", 1), s.Unit) // what the key limit gives back
	time.Sleep(s.Unit + s.Slack)
	l.granted(l.of("k", 10), 10, 0)
}

// changedTiers: a fast tier and a slow one in turn admit at most what both admit.
func changedTiers(s *suite) {
	hour, second := ratelimit.FixedWindow(1000, 3600*s.Unit), ratelimit.FixedWindow(10, s.Unit)
	l := s.limiter("tiers", hour)
	tier := l.tier(second)
	l.granted(l.of("k", 500), 500, 500)
	r := tier.of("k", 1)
	s.fatalIf(r.Allowed || r.RetryAfter > 50*s.Unit, "500 are 50 windows of the tier: %+v", r)
	l.refused(l.of("k", 1000), 50*s.Unit)
	time.Sleep(50*s.Unit + s.Slack)
	l.granted(l.of("k", 1), 1, 999)
	l.granted(tier.of("k", 9), 9, 0)
}

// changedOther: the last take was under a tier, so the limit that is changed does not matter.
func changedOther(s *suite) {
	l := s.limiter("other", ratelimit.FixedWindow(1000, 3600*s.Unit))
	second := l.tier(ratelimit.FixedWindow(10, s.Unit))
	l.granted(second.of("k", 4), 4, 6)
	l.set(ratelimit.FixedWindow(5, 3600*s.Unit))
	l.granted(second.of("k", 4), 4, 2)
	time.Sleep(s.Unit + s.Slack)
	l.granted(l.of("k", 5), 5, 0)
}

// changedFar: permits that are reserved stay so under any number of limits.
func changedFar(s *suite) {
	l := s.limiter("far", ratelimit.TokenBucket(20, s.Unit, 1))
	total := int64(0)
	for n := range int64(3) {
		l.set(ratelimit.TokenBucket(20+n, s.Unit, 1))
		for range 60 {
			r, err := l.Reserve(context.Background(), "k", 1, 3*s.Unit)
			s.ok(err)
			total += r.Permits
		}
	}
	s.fatalIf(total < 60 || total > 67, "22 a unit granted %d in three of them", total)
}

func changedJoined(s *suite) {
	short := func(n int64) ratelimit.Limit { return ratelimit.FixedWindow(n, 10*s.Unit) }
	long := func(n int64) ratelimit.Limit { return ratelimit.SlidingLog(n, 3600*s.Unit) }
	l := s.limiter("joined", short(10).And(long(100)))
	l.granted(l.of("k", 8), 8, 2)
	l.set(short(20).And(long(50)))
	l.granted(l.of("k", 0), 0, 12)
	l.granted(l.of("k", 12), 12, 0)
	l.granted(l.tier(long(50)).of("k", 0), 0, 30)
	l.set(long(30))
	l.granted(l.of("k", 0), 0, 10)
	l.granted(l.of("k", 1), 1, 9)
	l.set(long(30).And(ratelimit.TokenBucket(40, 3600*s.Unit, 40))) // which has counted nothing: the log has all
	l.granted(l.of("k", 9), 9, 0)
	l.set(ratelimit.TokenBucket(40, 3600*s.Unit, 40).And(ratelimit.FixedWindow(35, 3600*s.Unit)))
	l.granted(l.of("k", 0), 0, 5) // the window goes on from the log
}
