package ratelimittest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// RandomPair returns two limits with small numbers.
func RandomPair(rng *rand.Rand) (pair [2]ratelimit.Limit) {
	for i := range pair {
		n, period := 1+rng.Int64N(8), time.Duration([]int64{6, 12, 24, 60}[rng.IntN(4)])*time.Millisecond
		all := []ratelimit.Limit{
			ratelimit.FixedWindow(n, period), ratelimit.TokenBucket(n, period, 1+rng.Int64N(8)), ratelimit.SlidingWindow(n, period, 2),
			ratelimit.SlidingCounter(n, period), ratelimit.SlidingLog(n, period), ratelimit.AlignedWindow(n, period),
		}
		pair[i] = all[rng.IntN(len(all))]
	}
	return pair
}

// A grant is permits that can be used at a time.
type grant struct{ at, permits int64 }

// most returns how many permits a limit admits at most in an interval.
func most(l ratelimit.Limit, length int64) float64 {
	s := limits.Limit(l).Specs()[0]
	n, period := float64(s.Permits), int64(s.Period)
	switch s.Algorithm {
	case limits.TokenBucket:
		return float64(s.Burst) + n*float64(length)/float64(period)
	case limits.SlidingWindow:
		period -= period / int64(s.Segments)
	case limits.FixedWindow, limits.SlidingCounter, limits.SlidingLog:
	}
	return n * float64(length/period+2)
}

// CheckTurns makes random takes of one key under two limits in turns, as two processes with different numbers do, and
// checks what docs/adr/0006-a-key-has-one-value.md promises. apply does an operation under the first limit or the second.
func CheckTurns(tb testing.TB, rng *rand.Rand, pair [2]ratelimit.Limit,
	apply func(now time.Duration, which int, op limits.Op) limits.Result,
) {
	tb.Helper()
	now, which, full := time.Duration(0), 0, time.Duration(0)
	var grants []grant
	take := func(op limits.Op) limits.Result {
		r := apply(now, which, op)
		if r.Permits > 0 {
			at := int64(now + r.Wait)
			if n := len(grants); n > 0 && at < grants[n-1].at {
				tb.Fatalf("%v: granted for %d, before %d that is reserved", pair, at, grants[n-1].at)
			}
			grants, full = append(grants, grant{at, r.Permits}), now+r.FullAfter
		}
		return r
	}
	for range 40 {
		if rng.IntN(3) > 0 {
			now += time.Duration(rng.Int64N(12_000)) * time.Microsecond
		}
		which = rng.IntN(2)
		op := limits.Op{Cost: 1 + rng.Int64N(Capacity(pair[which]))}
		if rng.IntN(5) == 0 {
			op.Kind, op.MaxWait = limits.Reserve, time.Duration(rng.Int64N(60))*time.Millisecond
		}
		r := take(op)
		if later := apply(now, which, limits.Op{}); now+later.FullAfter > full+time.Microsecond {
			tb.Fatalf("%v: full at %v, although %v was said", pair, now+later.FullAfter, full)
		}
		if r.Allowed || rng.IntN(2) == 0 {
			continue
		}
		wait := (r.RetryAfter + time.Microsecond - 1).Truncate(time.Microsecond) // the first whole one
		now += max(0, wait-time.Microsecond)
		if op.Kind = limits.Take; wait > 2*time.Microsecond && apply(now, which, limits.Op{Kind: limits.Check, Cost: op.Cost}).Allowed {
			tb.Fatalf("%v: a take of %d is allowed at %v, before its time %v", pair, op.Cost, now, wait)
		}
		if now += min(wait, time.Microsecond); !take(op).Allowed {
			tb.Fatalf("%v: a take of %d is refused at %v, the time that it was told", pair, op.Cost, now)
		}
	}
	a, b := limits.Limit(pair[0]).Specs()[0], limits.Limit(pair[1]).Specs()[0]
	buckets := a.Algorithm == limits.TokenBucket && b.Algorithm == limits.TokenBucket
	for i, first := range grants {
		sum := int64(0)
		for _, g := range grants[i:] {
			length := g.at - first.at
			bound := most(pair[0], length) + most(pair[1], length)
			if sum += g.permits; buckets {
				bound = float64(max(a.Burst, b.Burst)) + max(most(pair[0], length)-float64(a.Burst), most(pair[1], length)-float64(b.Burst))
			}
			if float64(sum) > bound+0.01 {
				tb.Fatalf("%v: %d permits in %v, more than %v", pair, sum, time.Duration(length), bound)
			}
		}
	}
}
