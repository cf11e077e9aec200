package ratelimit

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/limits"
)

// An oracle is one limit as its definition has it: what is free at a time, as a
// rational number, from the takes that were made. It shares nothing with the code
// under test. Takes are numbered from 0 and in order of time.
type oracle interface {
	capacity() int64
	// free is what can be taken at a time, now or later, if nobody takes before.
	free(t int64) *big.Rat
	// turns are times of which one is the first at which n can be taken.
	turns(n int64) []int64
	take(t, n int64)
	refund(t int64, number int)
}

// oracleTake is a take as an oracle remembers it.
type oracleTake struct {
	at, n int64
	start int64    // of its window
	full  *big.Rat // when its bucket would be full
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func ratOf(a, b int64) *big.Rat { return big.NewRat(a, b) }

func ratFloor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ratCeil(r *big.Rat) int64 {
	n := new(big.Rat).Neg(r)
	return -ratFloor(n)
}

// oracleBucket is a leaking debt.
type oracleBucket struct {
	l     Limit
	at    int64
	debt  *big.Rat // permits, at that time
	takes []oracleTake
}

func (o *oracleBucket) capacity() int64 { return spec(o.l).Burst }

func (o *oracleBucket) gained(ns *big.Rat) *big.Rat {
	return new(big.Rat).Mul(ns, ratOf(spec(o.l).Permits, int64(spec(o.l).Period)))
}

func (o *oracleBucket) debtAt(t int64) *big.Rat {
	d := new(big.Rat).Sub(o.debt, o.gained(rat(t-o.at)))
	if d.Sign() < 0 {
		return rat(0)
	}
	return d
}

func (o *oracleBucket) free(t int64) *big.Rat {
	return new(big.Rat).Sub(rat(spec(o.l).Burst), o.debtAt(t))
}

func (o *oracleBucket) turns(n int64) []int64 {
	over := new(big.Rat).Sub(o.debt, rat(spec(o.l).Burst-n))
	ns := over.Mul(over, ratOf(int64(spec(o.l).Period), spec(o.l).Permits))
	return []int64{o.at + ratCeil(ns)}
}

func (o *oracleBucket) take(t, n int64) {
	o.debt, o.at = o.debtAt(t), t
	o.debt.Add(o.debt, rat(n))
	full := new(big.Rat).Mul(o.debt, ratOf(int64(spec(o.l).Period), spec(o.l).Permits))
	o.takes = append(o.takes, oracleTake{at: t, n: n, full: full.Add(full, rat(t))})
}

func (o *oracleBucket) refund(t int64, number int) {
	take := o.takes[number]
	back := o.gained(new(big.Rat).Sub(take.full, rat(t))) // what time has not repaid
	o.debt, o.at = o.debtAt(t), t
	last := back.Cmp(o.debt) == 0
	if own := new(big.Rat).Sub(rat(take.n), o.gained(rat(t-take.at))); own.Cmp(back) > 0 {
		back = own
	}
	for _, most := range []*big.Rat{rat(take.n), o.debt} {
		if back.Cmp(most) > 0 {
			back = most
		}
	}
	if back.Sign() <= 0 {
		return
	}
	o.debt = new(big.Rat).Sub(o.debt, back)
	if !last { // those after it would be full sooner
		sooner := new(big.Rat).Mul(back, ratOf(int64(spec(o.l).Period), spec(o.l).Permits))
		for i := range o.takes {
			o.takes[i].full = new(big.Rat).Sub(o.takes[i].full, sooner)
		}
	}
}

// oracleWindow is a fixed window: a start and a count.
type oracleWindow struct {
	l           Limit
	epoch       int64 // the time 0 of the table, in ns since 1970
	start, used int64
	takes       []oracleTake
}

func (o *oracleWindow) capacity() int64 { return spec(o.l).Permits }

// on reports whether a window is on: it ends with its period, also when all of it was refunded.
func (o *oracleWindow) on(t int64) bool {
	return len(o.takes) > 0 && t < o.start+int64(spec(o.l).Period)
}

func (o *oracleWindow) free(t int64) *big.Rat {
	if o.on(t) {
		return rat(spec(o.l).Permits - o.used)
	}
	return rat(spec(o.l).Permits)
}

func (o *oracleWindow) turns(int64) []int64 { return []int64{o.start + int64(spec(o.l).Period)} }

func (o *oracleWindow) take(t, n int64) {
	if !o.on(t) {
		o.start, o.used = t, 0
		if spec(o.l).Aligned {
			o.start -= (o.epoch + t) % int64(spec(o.l).Period)
		}
	}
	o.used += n
	o.takes = append(o.takes, oracleTake{at: t, n: n, start: o.start})
}

func (o *oracleWindow) refund(t int64, number int) {
	if take := o.takes[number]; o.on(t) && take.start == o.start {
		o.used -= take.n
	}
}

// oracleLog is the list of takes. In a sliding window each counts from the start of
// its segment.
type oracleLog struct {
	l     Limit
	takes []oracleTake
}

func (o *oracleLog) capacity() int64 { return spec(o.l).Permits }

func (o *oracleLog) over(take oracleTake) int64 {
	if spec(o.l).Algorithm == limits.SlidingWindow {
		segment := int64(spec(o.l).Period) / int64(spec(o.l).Segments)
		return take.at/segment*segment + int64(spec(o.l).Period)
	}
	return take.at + int64(spec(o.l).Period)
}

func (o *oracleLog) free(t int64) *big.Rat {
	left := spec(o.l).Permits
	for _, take := range slices.Backward(o.takes) { // those before one that is over are over
		if t >= o.over(take) {
			break
		}
		left -= take.n
	}
	return rat(left)
}

func (o *oracleLog) turns(int64) []int64 {
	all := make([]int64, len(o.takes))
	for i, take := range o.takes {
		all[i] = o.over(take)
	}
	return all
}

func (o *oracleLog) take(t, n int64) { o.takes = append(o.takes, oracleTake{at: t, n: n}) }

func (o *oracleLog) refund(_ int64, number int) { o.takes[number].n = 0 }

// oracleCounter is two counts, of which the older one fades.
type oracleCounter struct {
	l                Limit
	start, prev, cur int64
	takes            []oracleTake
}

func (o *oracleCounter) capacity() int64 { return spec(o.l).Permits }

// at is where the windows stand at a time.
func (o *oracleCounter) at(t int64) (start, prev, cur int64) {
	start, prev, cur = o.start, o.prev, o.cur
	for w := int64(spec(o.l).Period); t >= start+w && prev+cur > 0; start += w {
		prev, cur = cur, 0
	}
	return start, prev, cur
}

func (o *oracleCounter) free(t int64) *big.Rat {
	start, prev, cur := o.at(t)
	left := rat(spec(o.l).Permits - cur)
	if prev == 0 {
		return left
	}
	w := int64(spec(o.l).Period)
	fading := new(big.Rat).Mul(rat(prev), ratOf(w-(t-start), w))
	return left.Sub(left, fading)
}

func (o *oracleCounter) turns(n int64) []int64 {
	w := int64(spec(o.l).Period)
	all := []int64{o.start + w, o.start + 2*w}
	for i, c := range []struct{ prev, cur int64 }{{o.prev, o.cur}, {o.cur, 0}} {
		if c.prev > 0 {
			gone := new(big.Rat).Mul(rat(c.prev-(spec(o.l).Permits-c.cur-n)), ratOf(w, c.prev))
			all = append(all, o.start+int64(i)*w+ratCeil(gone))
		}
	}
	return all
}

func (o *oracleCounter) take(t, n int64) {
	o.start, o.prev, o.cur = o.at(t)
	on := t < o.start+int64(spec(o.l).Period) && slices.ContainsFunc(o.takes, func(take oracleTake) bool { return take.start == o.start })
	if o.prev+o.cur == 0 && !on { // one that is on lasts to its end, also when all of it was refunded
		o.start = t
	}
	o.cur += n
	o.takes = append(o.takes, oracleTake{at: t, n: n, start: o.start})
}

func (o *oracleCounter) refund(t int64, number int) {
	o.start, o.prev, o.cur = o.at(t)
	switch take := o.takes[number]; {
	case o.prev+o.cur == 0:
	case take.start == o.start:
		o.cur -= take.n
	case take.start == o.start-int64(spec(o.l).Period):
		o.prev -= take.n
	}
}

// oracles are the limits that And joined.
type oracles []oracle

// newOracles are those of a limit in a table that was made at a time of day.
func newOracles(l Limit, epoch int64) oracles {
	var all oracles
	for _, l := range parts(l) {
		switch spec(l).Algorithm {
		case limits.FixedWindow:
			all = append(all, &oracleWindow{l: l, epoch: epoch})
		case limits.TokenBucket:
			all = append(all, &oracleBucket{l: l, debt: rat(0)})
		case limits.SlidingWindow, limits.SlidingLog:
			all = append(all, &oracleLog{l: l})
		case limits.SlidingCounter:
			all = append(all, &oracleCounter{l: l})
		}
	}
	return all
}

// first is how long it is until n can be taken. That it is the first time follows
// from what is free never getting less.
func first(tb testing.TB, o oracle, now, n int64) time.Duration {
	tb.Helper()
	fits := func(t int64) bool { return o.free(t).Cmp(rat(n)) >= 0 }
	if fits(now) {
		return 0
	}
	turns := o.turns(n)
	slices.Sort(turns)
	for _, t := range turns {
		if t > now && fits(t) {
			if fits(t - 1) {
				tb.Fatalf("the oracle %T is wrong: %d fit before %d", o, n, t)
			}
			return time.Duration(t - now)
		}
	}
	tb.Fatalf("the oracle %T is wrong: %d never fit", o, n)
	return 0
}

// apply is what an operation has to give, but for Plan and Receipt; number is that
// of the take to refund.
func (all oracles) apply(tb testing.TB, now int64, op limits.Op, number int) Result {
	tb.Helper()
	rs := make([]Result, len(all))
	least := op.Cost // what all have, or the cost
	for _, o := range all {
		least = min(least, ratFloor(o.free(now)))
	}
	least = max(0, least)
	granted, refused := op.Cost, op.Kind == limits.Take && least < op.Cost
	if op.Kind == limits.TakeAtMost {
		granted, refused = least, least == 0 && op.Cost > 0
	}
	for i, o := range all {
		rs[i] = Result{Allowed: true, Limit: o.capacity()}
		ask := op.Cost
		if op.Kind == limits.TakeAtMost {
			ask = min(ask, 1)
		}
		switch {
		case op.Kind == limits.Refund:
			o.refund(now, number)
		case !refused && granted > 0:
			o.take(now, granted)
			rs[i].Permits = granted
		case refused && ask > o.capacity():
			rs[i].Allowed, rs[i].RetryAfter = false, limits.Never
		case refused && ratFloor(o.free(now)) < ask:
			rs[i].Allowed, rs[i].RetryAfter = false, first(tb, o, now, ask)
		}
	}
	which := 0
	for i, o := range all {
		r := &rs[i]
		r.Remaining = max(0, ratFloor(o.free(now)))
		if r.Remaining < r.Limit {
			r.NextAfter = first(tb, o, now, r.Remaining+1)
		}
		r.FullAfter = first(tb, o, now, r.Limit)
		r.Which = i
		if i > 0 && oracleWorse(*r, rs[which]) {
			which = i
		}
	}
	return rs[which]
}

// oracleWorse tells whether it is a that counts.
func oracleWorse(a, b Result) bool {
	switch {
	case a.Allowed && b.Allowed:
		return a.Remaining < b.Remaining || a.Remaining == b.Remaining && a.NextAfter > b.NextAfter
	case a.Allowed || b.Allowed:
		return b.Allowed
	case a.RetryAfter == limits.Never || b.RetryAfter == limits.Never:
		return b.RetryAfter != limits.Never
	}
	return a.RetryAfter > b.RetryAfter
}

// randomLimit is one that the package counts exactly to the nanosecond.
func randomLimit(rng *rand.Rand, a limits.Algorithm) Limit {
	periods := []time.Duration{1, 2, 997, time.Millisecond, time.Second, 1234567891, 7 * time.Second, time.Minute, 4 * time.Minute}
	period := periods[rng.IntN(len(periods))]
	n := 1 + rng.Int64N(1<<rng.IntN(10))
	switch a {
	case limits.TokenBucket:
		period *= time.Duration(1 + rng.IntN(100))
		return TokenBucket(1+rng.Int64N(1<<rng.IntN(20)), period, n)
	case limits.SlidingWindow:
		segments := 2 + rng.IntN(12)
		return SlidingWindow(n, period*time.Duration(segments), segments)
	case limits.SlidingCounter:
		return SlidingCounter(n*(1+rng.Int64N(1000)), period*time.Duration(1+rng.IntN(1000)))
	case limits.SlidingLog:
		return SlidingLog(n, period*time.Duration(1+rng.IntN(1000)))
	case limits.FixedWindow:
	}
	if n <= 60 {
		period *= time.Duration(1 + rng.IntN(10))
	}
	return of(limits.Spec{Permits: n, Period: period, Aligned: rng.IntN(2) == 0})
}

// agree runs random operations of one key against the oracles.
func agree(tb testing.TB, rng *rand.Rand, l Limit, steps int) {
	tb.Helper()
	epoch := time.Now().UnixNano()
	tab, ids := newTestTable(tb, 0, l)
	all := newOracles(l, epoch)
	type taken struct {
		r      Result
		number int
	}
	var takes []taken
	numbers := 0
	now := rng.Int64N(1 << 40)
	quoted := mustApply(tb, tab, time.Duration(now), "k", ids[0], limits.Op{})
	capacity := limits.Limit(l).Capacity()
	period := int64(0)
	for _, l := range parts(l) {
		period = max(period, int64(spec(l).Period))
	}
	for range steps {
		late := int64(0)
		switch rng.IntN(8) {
		case 0, 1: // at the quoted time, or 1ns before
			now += max(0, int64(quoted.RetryAfter)-rng.Int64N(2))
		case 2:
			now += max(0, int64(quoted.NextAfter)-rng.Int64N(2))
		case 3:
			now += max(0, int64(quoted.FullAfter)-rng.Int64N(2))
		case 4:
			now += rng.Int64N(period/capacity + 2)
		case 5:
			now += rng.Int64N(period + 1)
		case 6: // the clock goes back: nothing is minted
			late = rng.Int64N(min(now, period) + 1)
		}
		op, number := limits.Op{Cost: rng.Int64N(capacity + 2)}, 0
		switch k := rng.IntN(8); {
		case k < 2:
			op.Cost = rng.Int64N(3)
		case k == 2:
			op.Kind = limits.TakeAtMost
		case (k == 3 || k == 5) && len(takes) > 0:
			i := rng.IntN(len(takes))
			op, number = limits.Op{Kind: limits.Refund, Cost: takes[i].r.Permits, Receipt: takes[i].r.Receipt}, takes[i].number
			takes = slices.Delete(takes, i, i+1)
		case k == 4 && rng.IntN(8) == 0: // a new key
			mustApply(tb, tab, time.Duration(now), "k", ids[0], limits.Op{Kind: limits.Reset})
			all, takes, numbers = newOracles(l, epoch), nil, 0
		}
		want := all.apply(tb, now, op, number)
		got := mustApply(tb, tab, time.Duration(now-late), "k", ids[0], op)
		if got.Permits > 0 && op.Kind != limits.Refund {
			takes = append(takes, taken{got, numbers})
			numbers++
		}
		receipt := got.Receipt
		got.Receipt = Result{}.Receipt
		if got != want {
			got.Receipt = receipt
			tb.Fatalf("%v: %+v at %d (table made at %d):\n got %+v\nwant %+v", l, op, now, epoch, got, want)
		}
		quoted = want
	}
}

func TestOracle(t *testing.T) {
	t.Parallel()
	checkOracle(t, 30)
}

func checkOracle(t *testing.T, rounds int) {
	t.Helper()
	for a := range limits.SlidingLog + 1 {
		t.Run(fmt.Sprint(a), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // where the time of day is known
				rng := rand.New(rand.NewPCG(uint64(a), 11))
				for range rounds {
					time.Sleep(time.Duration(rng.Int64N(int64(time.Hour))))
					l := randomLimit(rng, a)
					require.NoError(t, l.check(""), "%v", l)
					agree(t, rng, l, 80)
				}
			})
		})
	}
}

func TestOracleOfSeveralLimits(t *testing.T) {
	t.Parallel()
	checkOracleOfSeveral(t, 25)
}

func checkOracleOfSeveral(t *testing.T, rounds int) {
	t.Helper()
	for n := 2; n <= MaxLimits; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(n), 12))
				for range rounds {
					time.Sleep(time.Duration(rng.Int64N(int64(time.Hour))))
					l := randomLimit(rng, limits.Algorithm(rng.IntN(5)))
					for len(parts(l)) < n {
						if more := l.And(randomLimit(rng, limits.Algorithm(rng.IntN(5)))); more.check("") == nil {
							l = more
						}
					}
					agree(t, rng, l, 80)
				}
			})
		})
	}
}
