package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// record is one take as its caller saw it. Times are from the start of the run.
type record struct {
	began, ended time.Duration
	remaining    int64
	cost         int8
	allowed      bool
}

// recordTakes lets 16 goroutines take 1 to 3 permits of one key, as often as told,
// and as fast as they can.
func recordTakes(tb testing.TB, l *ratelimit.Limiter, each int) []record {
	tb.Helper()
	const goroutines = 16
	records := make([]record, goroutines*each)
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		mine := records[g*each : (g+1)*each]
		wg.Go(func() {
			for i := range mine {
				cost := 1 + rand.Int64N(3)
				began := time.Since(start)
				r, err := l.Take(context.Background(), "k", cost)
				if err != nil {
					tb.Error(err)
					return
				}
				mine[i] = record{began: began, ended: time.Since(start), remaining: r.Remaining, cost: int8(cost), allowed: r.Allowed}
			}
		})
	}
	wg.Wait()
	return records
}

// linear tells how many permits were granted, after it has made sure that the takes
// of a key, to which time gave nothing back, are as if they had come one after the
// other, in an order that agrees with the clock.
func linear(tb testing.TB, capacity int64, records []record) (granted int64) {
	tb.Helper()
	slices.SortFunc(records, func(a, b record) int {
		switch {
		case a.remaining != b.remaining:
			return int(b.remaining - a.remaining)
		case a.allowed != b.allowed: // what was refused there came after what led there
			if a.allowed {
				return -1
			}
			return 1
		}
		return 0
	})
	left := capacity
	latest := time.Duration(0) // the latest beginning of those that lead here
	for i := 0; i < len(records); {
		at := records[i].remaining
		if r := records[i]; r.allowed {
			if left != at+int64(r.cost) {
				tb.Fatalf("%d left, then a take of %d leaves %d: the chain is broken", left, r.cost, at)
			}
			left, granted = at, granted+int64(r.cost)
			if r.ended < latest {
				tb.Fatalf("a take that leaves %d ended before one began that comes before it", at)
			}
			latest = max(latest, r.began)
			i++
		}
		if left != at {
			tb.Fatalf("a refusal saw %d, which never was: %d were left", at, left)
		}
		began := latest
		for ; i < len(records) && records[i].remaining == at; i++ {
			r := records[i]
			if r.allowed || int64(r.cost) <= at || r.ended < latest {
				tb.Fatalf("%+v with %d left since %v", r, at, latest)
			}
			began = max(began, r.began)
		}
		latest = began
	}
	return granted
}

// linearLimits are limits of which time gives nothing back during a test. A period of
// years is as good as a day, and for a bucket better. Of several it is always the same
// that counts: no other refuses.
func linearLimits(permits int64) map[string]ratelimit.Limit {
	const day = 24 * time.Hour
	bucket := ratelimit.TokenBucket(permits, ratelimit.MaxPeriod, permits) // one permit takes minutes
	return map[string]ratelimit.Limit{
		"FixedWindow":    ratelimit.FixedWindow(permits, day),
		"Aligned":        ratelimit.AlignedWindow(permits, ratelimit.MaxPeriod),
		"TokenBucket":    bucket,
		"SlidingWindow":  ratelimit.SlidingWindow(permits, 10*day, 10),
		"SlidingCounter": ratelimit.SlidingCounter(permits, day),
		"SlidingLog":     ratelimit.SlidingLog(min(permits, limits.MaxLogPermits), day),
		"Two":            ratelimit.FixedWindow(permits+100, day).And(bucket),
		"Four":           ratelimit.SlidingCounter(permits+20, day).And(bucket).And(ratelimit.FixedWindow(permits+30, day).And(ratelimit.SlidingWindow(permits+10, day, 10))),
	}
}

// checkLinear runs one limit and looks at all that must hold.
func checkLinear(tb testing.TB, limit ratelimit.Limit, each int) {
	tb.Helper()
	all := map[string]ratelimit.Limit{}
	for _, s := range limits.Limit(limit).Specs() {
		all[fmt.Sprint(len(all))] = ratelimit.Limit(limits.Of(s))
	}
	l := newLimiter(tb, ratelimit.Config{Limit: limit, Limits: all})
	start := time.Now()
	records := recordTakes(tb, l, each)
	took := time.Since(start)
	granted := linear(tb, ratelimittest.Capacity(limit), records)
	require.LessOrEqual(tb, ratelimittest.Capacity(limit)-granted, int64(2), "all is used up, but for what no take of the rest fits in")
	r, err := l.Peek(tb.Context(), "k")
	require.NoError(tb, err)
	require.Equal(tb, ratelimittest.Capacity(limit)-granted, r.Remaining)
	for name, one := range all { // each of several has been charged the same
		r, err := l.Under(name).Peek(tb.Context(), "k")
		require.NoError(tb, err)
		require.Equal(tb, ratelimittest.Capacity(one)-granted, r.Remaining, "%v", one)
	}
	allowed := 0
	for _, r := range records {
		if r.allowed {
			allowed++
		}
	}
	s := l.Stats()
	require.EqualValues(tb, allowed, s.Allowed)
	require.EqualValues(tb, len(records)-allowed, s.Rejected)
	tb.Logf("%v: %d takes in %v, %d permits granted in %d of them", limit, len(records), took.Round(time.Millisecond), granted, allowed)
}

func TestTakesOfOneKeyAreLinear(t *testing.T) {
	t.Parallel()
	for name, limit := range linearLimits(40_000) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkLinear(t, limit, 2000)
		})
	}
}

// While permits come back, no more are granted than the algorithm promises for the
// time that it took, and more than there were at the beginning.
func TestTakesOfOneKeyKeepThePromise(t *testing.T) {
	t.Parallel()
	checkPromise(t, 2500)
}

func checkPromise(t *testing.T, each int) {
	t.Helper()
	const n, w = 300, 2 * time.Millisecond
	windows := func(w time.Duration) func(time.Duration) int64 {
		return func(d time.Duration) int64 { return n * (int64(d/w) + 1) }
	}
	for name, c := range map[string]struct {
		limit ratelimit.Limit
		most  func(time.Duration) int64 // of permits in a time
	}{
		"FixedWindow":    {ratelimit.FixedWindow(n, w), windows(w)},
		"Aligned":        {ratelimit.AlignedWindow(n, w), func(d time.Duration) int64 { return n * (int64(d/w) + 2) }},
		"TokenBucket":    {ratelimit.TokenBucket(n, w, 50), func(d time.Duration) int64 { return 50 + int64(n*d/w) }},
		"SlidingWindow":  {ratelimit.SlidingWindow(n, w, 10), windows(w * 9 / 10)},
		"SlidingCounter": {ratelimit.SlidingCounter(n, w), windows(w)},
		"SlidingLog":     {ratelimit.SlidingLog(n, w), windows(w)},
		"Several": {ratelimit.SlidingLog(n, w).And(ratelimit.TokenBucket(n, w, 50)), func(d time.Duration) int64 {
			return min(50+int64(n*d/w), windows(w)(d))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimiter(t, ratelimit.Config{Limit: c.limit})
			start := time.Now()
			records := recordTakes(t, l, each)
			took := time.Since(start)
			granted := int64(0)
			for _, r := range records {
				if r.allowed {
					granted += int64(r.cost)
				}
			}
			require.LessOrEqual(t, granted, c.most(took), "in %v", took)
			require.Greater(t, granted, ratelimittest.Capacity(c.limit), "some came back in %v", took)
			t.Logf("%v: %d of at most %d permits in %v", c.limit, granted, c.most(took), took.Round(time.Microsecond))
		})
	}
}

// What a limiter decides while its limits are changed, some of its keys have limits of their own,
// and time passes, does not depend on the short cut of a table in memory.
func TestSettingsDoNotDependOnTakeOne(t *testing.T) {
	t.Parallel()
	checkSettings(t, 9)
}

func checkSettings(t *testing.T, seeds uint64) {
	t.Helper()
	kinds := [][]ratelimit.Limit{
		{ratelimit.TokenBucket(3, time.Second, 5), ratelimit.TokenBucket(7, time.Second, 20), ratelimit.TokenBucket(1, time.Second, 2), ratelimit.PerSecond(4)},
		{ratelimit.PerSecond(4), ratelimit.PerSecond(9), ratelimit.FixedWindow(3, 2*time.Second), ratelimit.AlignedWindow(5, time.Second)},
		{ratelimit.TokenBucket(3, time.Second, 5), ratelimit.SlidingWindow(6, time.Second, 4), ratelimit.TokenBucket(7, time.Second, 20), ratelimit.PerSecond(3).And(ratelimit.PerMinute(9))},
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			those := kinds[seed%uint64(len(kinds))]
			a := newLimiter(t, ratelimit.Config{Limit: those[0]})
			b := newLimiter(t, ratelimit.Config{Name: "b", Limit: those[0], Store: &ratelimittest.Memory{}}) // which is never asked in that way
			for range 2000 {
				key := fmt.Sprint(r.IntN(3))
				switch limit := those[r.IntN(len(those))]; r.IntN(40) {
				case 0:
					ratelimittest.SetLimit(t, a, limit)
					ratelimittest.SetLimit(t, b, limit)
				case 1:
					require.NoError(t, a.SetKeyLimit(key, limit))
					require.NoError(t, b.SetKeyLimit(key, limit))
				case 2, 3:
					_ = a.SetKeyLimit(key, ratelimit.Limit{})
					_ = b.SetKeyLimit(key, ratelimit.Limit{})
				case 4, 5, 6, 7:
					time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				case 8:
					time.Sleep(time.Duration(r.Int64N(int64(10 * time.Second))))
				}
				n := r.Int64N(4)
				want, err := b.Take(t.Context(), key, n)
				require.NoError(t, err)
				got, err := a.Take(t.Context(), key, n)
				require.NoError(t, err)
				want.Receipt, got.Receipt = limits.Receipt{}, limits.Receipt{}
				require.Equal(t, want, got)
			}
		})
	}
}

// randomPair returns two limits with small numbers.
func randomPair(rng *rand.Rand) (pair [2]ratelimit.Limit) {
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
type grant struct {
	at, permits int64
	take        limits.Receipt
}

// most returns how many permits a limit admits at most in an interval.
func most(l ratelimit.Limit, length int64) float64 {
	s := spec(l)
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

// TestTwoLimitsInTurns makes random takes and refunds of one key under two limits in turns, as two processes with different numbers do, and checks
// what docs/adr/0006-a-key-has-one-value.md promises. That a store in Redis does the same is a test of redisstore.
func TestTwoLimitsInTurns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		synctest.Test(t, func(t *testing.T) { checkTurns(t, rand.New(rand.NewPCG(seed, 21))) })
	}
}

func checkTurns(t *testing.T, rng *rand.Rand) {
	t.Helper()
	pair := randomPair(rng)
	table := core.Must(openMemory(t).Open("turns"))
	var plans [2]*limits.Plan
	for i, l := range pair {
		plans[i] = core.Must(table.Plan(limits.Limit(l).Specs()))
	}
	start := time.Now()
	apply := func(now time.Duration, which int, op limits.Op) limits.Result {
		time.Sleep(now - time.Since(start))
		return core.Must(table.Apply(t.Context(), "k", plans[which], op))
	}
	now, which, full := time.Duration(0), 0, time.Duration(0)
	var grants []grant
	take := func(op limits.Op) limits.Result {
		r := apply(now, which, op)
		if r.Permits > 0 {
			at := int64(now + r.Wait)
			if n := len(grants); n > 0 && at < grants[n-1].at {
				t.Fatalf("%v: granted for %d, before %d that is reserved", pair, at, grants[n-1].at)
			}
			grants, full = append(grants, grant{at, r.Permits, r.Receipt}), now+r.FullAfter
		}
		return r
	}
	for range 40 {
		if rng.IntN(3) > 0 {
			now += time.Duration(rng.Int64N(12_000)) * time.Microsecond
		}
		which = rng.IntN(2)
		if n := len(grants); n > 0 && rng.IntN(5) == 0 { // gives back what can be given back
			i := n - 1 - rng.IntN(min(n, 3))
			r := apply(now, which, limits.Op{Kind: limits.Refund, Cost: grants[i].permits, Receipt: grants[i].take})
			full = max(full, now+r.FullAfter) // what is reserved can begin a window of a counter now
			grants = slices.Delete(grants, i, i+1)
		}
		op := limits.Op{Cost: 1 + rng.Int64N(ratelimittest.Capacity(pair[which]))}
		if rng.IntN(5) == 0 {
			op.Kind, op.MaxWait = limits.Reserve, time.Duration(rng.Int64N(60))*time.Millisecond
		}
		r := take(op)
		if later := apply(now, which, limits.Op{}); now+later.FullAfter > full+time.Microsecond {
			t.Fatalf("%v: full at %v, although %v was said", pair, now+later.FullAfter, full)
		}
		if r.Allowed || rng.IntN(2) == 0 {
			continue
		}
		wait := (r.RetryAfter + time.Microsecond - 1).Truncate(time.Microsecond) // the first whole one
		now += max(0, wait-time.Microsecond)
		if op.Kind = limits.Take; wait > 2*time.Microsecond && apply(now, which, limits.Op{Kind: limits.Check, Cost: op.Cost}).Allowed {
			t.Fatalf("%v: a take of %d is allowed at %v, before its time %v", pair, op.Cost, now, wait)
		}
		if now += min(wait, time.Microsecond); !take(op).Allowed {
			t.Fatalf("%v: a take of %d is refused at %v, the time that it was told", pair, op.Cost, now)
		}
	}
	a, b := spec(pair[0]), spec(pair[1])
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
				t.Fatalf("%v: %d permits in %v, more than %v", pair, sum, time.Duration(length), bound)
			}
		}
	}
}
