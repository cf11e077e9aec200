package memory

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

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

type limited struct{ limits.Spec }

func capacityOf(l Limit) int64 {
	least := int64(limits.MaxPermits)
	for _, s := range limits.Limit(l).Specs() {
		least = min(least, limits.Capacity(s))
	}
	return least
}

func (l limited) capacity() int64 { return capacityOf(of(l.Spec)) }

// oracleTake is a take as an oracle remembers it.
type oracleTake struct {
	at, n int64
	start int64    // of its window
	full  *big.Rat // when its bucket would be full
}

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func ratOf(a, b int64) *big.Rat { return big.NewRat(a, b) }

func ratFloor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

func ratCeil(r *big.Rat) int64 { return -ratFloor(new(big.Rat).Neg(r)) }

// oracleBucket is a leaking debt.
type oracleBucket struct {
	limited
	at    int64
	debt  *big.Rat // permits, at that time
	takes []oracleTake
}

func (o *oracleBucket) gained(ns *big.Rat) *big.Rat {
	return new(big.Rat).Mul(ns, ratOf(o.Permits, int64(o.Period)))
}

func (o *oracleBucket) debtAt(t int64) *big.Rat {
	d := new(big.Rat).Sub(o.debt, o.gained(rat(t-o.at)))
	if d.Sign() < 0 {
		return rat(0)
	}
	return d
}

func (o *oracleBucket) free(t int64) *big.Rat {
	return new(big.Rat).Sub(rat(o.Burst), o.debtAt(t))
}

func (o *oracleBucket) turns(n int64) []int64 {
	over := new(big.Rat).Sub(o.debt, rat(o.Burst-n))
	ns := over.Mul(over, ratOf(int64(o.Period), o.Permits))
	return []int64{o.at + ratCeil(ns)}
}

func (o *oracleBucket) take(t, n int64) {
	o.debt, o.at = o.debtAt(t), t
	o.debt.Add(o.debt, rat(n))
	full := new(big.Rat).Mul(o.debt, ratOf(int64(o.Period), o.Permits))
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
		sooner := new(big.Rat).Mul(back, ratOf(int64(o.Period), o.Permits))
		for i := range o.takes {
			o.takes[i].full = new(big.Rat).Sub(o.takes[i].full, sooner)
		}
	}
}

// oracleWindow is a fixed window: a start and a count.
type oracleWindow struct {
	limited
	epoch       int64 // the time 0 of the table, in ns since 1970
	start, used int64
	takes       []oracleTake
}

// on reports whether a window is on: it ends with its period, also when all of it was refunded.
func (o *oracleWindow) on(t int64) bool {
	return len(o.takes) > 0 && t < o.start+int64(o.Period)
}

func (o *oracleWindow) free(t int64) *big.Rat {
	if o.on(t) {
		return rat(o.Permits - o.used)
	}
	return rat(o.Permits)
}

func (o *oracleWindow) turns(int64) []int64 { return []int64{o.start + int64(o.Period)} }

func (o *oracleWindow) take(t, n int64) {
	if !o.on(t) {
		o.start, o.used = t, 0
		if o.Aligned {
			o.start -= (o.epoch + t) % int64(o.Period)
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
	limited
	takes []oracleTake
}

func (o *oracleLog) over(take oracleTake) int64 {
	if o.Algorithm == limits.SlidingWindow {
		segment := int64(o.Period) / int64(o.Segments)
		return take.at/segment*segment + int64(o.Period)
	}
	return take.at + int64(o.Period)
}

func (o *oracleLog) free(t int64) *big.Rat {
	left := o.Permits
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
	limited
	start, prev, cur int64
	takes            []oracleTake
}

// at is where the windows stand at a time.
func (o *oracleCounter) at(t int64) (start, prev, cur int64) {
	start, prev, cur = o.start, o.prev, o.cur
	for w := int64(o.Period); t >= start+w && prev+cur > 0; start += w {
		prev, cur = cur, 0
	}
	return start, prev, cur
}

func (o *oracleCounter) free(t int64) *big.Rat {
	start, prev, cur := o.at(t)
	left := rat(o.Permits - cur)
	if prev == 0 {
		return left
	}
	w := int64(o.Period)
	fading := new(big.Rat).Mul(rat(prev), ratOf(w-(t-start), w))
	return left.Sub(left, fading)
}

func (o *oracleCounter) turns(n int64) []int64 {
	w := int64(o.Period)
	all := []int64{o.start + w, o.start + 2*w}
	for i, c := range []struct{ prev, cur int64 }{{o.prev, o.cur}, {o.cur, 0}} {
		if c.prev > 0 {
			gone := new(big.Rat).Mul(rat(c.prev-(o.Permits-c.cur-n)), ratOf(w, c.prev))
			all = append(all, o.start+int64(i)*w+ratCeil(gone))
		}
	}
	return all
}

func (o *oracleCounter) take(t, n int64) {
	o.start, o.prev, o.cur = o.at(t)
	on := t < o.start+int64(o.Period) && slices.ContainsFunc(o.takes, func(take oracleTake) bool { return take.start == o.start })
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
	case take.start == o.start-int64(o.Period):
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
			all = append(all, &oracleWindow{limited: limited{spec(l)}, epoch: epoch})
		case limits.TokenBucket:
			all = append(all, &oracleBucket{limited: limited{spec(l)}, debt: rat(0)})
		case limits.SlidingWindow, limits.SlidingLog:
			all = append(all, &oracleLog{limited: limited{spec(l)}})
		case limits.SlidingCounter:
			all = append(all, &oracleCounter{limited: limited{spec(l)}})
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
func (all oracles) apply(tb testing.TB, now int64, op limits.Op, number int) limits.Result {
	tb.Helper()
	rs := make([]limits.Result, len(all))
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
		rs[i] = limits.Result{Allowed: true, Limit: o.capacity()}
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
func oracleWorse(a, b limits.Result) bool {
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
	tab, ids := newTestTable(tb, few, l)
	all := newOracles(l, epoch)
	type taken struct {
		r      limits.Result
		number int
	}
	var takes []taken
	numbers := 0
	now := rng.Int64N(1 << 40)
	quoted := mustApply(tb, tab, time.Duration(now), "k", ids[0], limits.Op{})
	capacity := capacityOf(l)
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
		got.Receipt = limits.Result{}.Receipt
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

// checkOracle has rounds of one limit of each algorithm, of several that And joined, and of aligned windows of any size: their
// oracle knows no ticks, however coarse those are in which a key keeps the start of its window.
func checkOracle(t *testing.T, rounds int) {
	t.Helper()
	one := func(a limits.Algorithm) func(*rand.Rand) Limit {
		return func(rng *rand.Rand) Limit { return randomLimit(rng, a) }
	}
	several := func(n int) func(*rand.Rand) Limit {
		return func(rng *rand.Rand) Limit {
			l := randomLimit(rng, limits.Algorithm(rng.IntN(5)))
			for len(parts(l)) < n {
				if more := l.And(randomLimit(rng, limits.Algorithm(rng.IntN(5)))); more.check() == nil {
					l = more
				}
			}
			return l
		}
	}
	sizes := windowSizes(true)
	for name, random := range map[string]func(*rand.Rand) Limit{
		"window": one(limits.FixedWindow), "bucket": one(limits.TokenBucket), "sliding": one(limits.SlidingWindow),
		"counter": one(limits.SlidingCounter), "log": one(limits.SlidingLog), "two": several(2), "three": several(3), "four": several(limits.MaxLimits),
		"aligned, few":  func(rng *rand.Rand) Limit { return sizes[rng.IntN(len(sizes)/2)] },
		"aligned, many": func(rng *rand.Rand) Limit { return sizes[len(sizes)/2+rng.IntN(len(sizes)/2)] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // where the time of day is known
				rng := rand.New(rand.NewPCG(uint64(len(name)), 11))
				for range rounds {
					time.Sleep(time.Duration(rng.Int64N(int64(time.Hour))))
					l := random(rng)
					require.NoError(t, l.check(), "%v", l)
					agree(t, rng, l, 80)
				}
			})
		})
	}
}

// TestDay takes one permit at a time: as soon as one is there, and evenly, n times in each period.
// `make soak` does it for a whole day.
func TestDay(t *testing.T) {
	t.Parallel()
	checkDay(t, time.Hour)
}

func checkDay(t *testing.T, day time.Duration) {
	t.Helper()
	for _, rate := range []struct {
		n      int64
		period time.Duration
	}{{3, time.Second}, {7, time.Minute}} {
		n, w := rate.n, rate.period
		all := n * int64(day/w) // what a window admits
		for limit, greedy := range map[Limit]int64{
			FixedWindow(n, w): all, AlignedWindow(n, w): all, SlidingWindow(n, w, 10): all, SlidingLog(n, w): all,
			TokenBucket(n, w, n): all + n - 1, TokenBucket(n, w, 2): all + 1, // a full bucket first, and then as it fills
		} {
			t.Run(limit.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { // which begins at midnight
					takes := func(next func(i int64, now time.Duration, r limits.Result) time.Duration) (granted int64) {
						tab, ids := newTestTable(t, few, limit)
						for i, now := int64(1), time.Duration(0); now < day; i++ {
							r := mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: 1})
							granted += r.Permits
							now = next(i, now, r)
						}
						return granted
					}
					require.Equal(t, greedy, takes(func(_ int64, now time.Duration, r limits.Result) time.Duration { return now + r.RetryAfter }))
					require.Equal(t, all, takes(func(i int64, _ time.Duration, _ limits.Result) time.Duration {
						return time.Duration(i/n*int64(w) + (i%n*int64(w)+n-1)/n) // the i-th of n in each period, rounded up
					}), "evenly")
				})
			})
		}
	}
}

// A bucket decides as golang.org/x/time/rate does, at the time that it quotes, and
// refuses 1ns before it.
//
// x/time counts in float64. The rates are powers of two of at most 512 a second: what
// is quoted is then a multiple of 1/512 s, which is a whole number of nanoseconds and
// exact in a float64, and so are its tokens. Just before the quoted time it is not
// asked: it cuts the wait to whole nanoseconds, downwards, and so lets pass what is
// due within one.
func TestBucketAgreesWithXTimeRate(t *testing.T) {
	t.Parallel()
	checkAgainstXTime(t, 15_000)
}

func checkAgainstXTime(t *testing.T, steps int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(21, 22))
	const buckets = 50
	for range buckets {
		permits, period := int64(1)<<rng.IntN(10), time.Second<<rng.IntN(6)
		burst := 1 + rng.Int64N(1<<rng.IntN(12))
		tab, ids := newTestTable(t, few, TokenBucket(permits, period, burst))
		theirs := rate.NewLimiter(rate.Limit(float64(permits)/period.Seconds()), int(burst))
		epoch, now := time.Unix(1_000_000_000, 0), time.Duration(0)
		for refused := 0; refused < steps/buckets/2; {
			cost := 1 + rng.Int64N(burst)
			take := func() limits.Result { return mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: cost}) }
			x := func() bool { return theirs.AllowN(epoch.Add(now), int(cost)) }
			r := take()
			if x() != r.Allowed {
				t.Fatalf("%d per %v, burst %d: at %v for %d we say %v", permits, period, burst, now, cost, r.Allowed)
			}
			if r.Allowed {
				continue
			}
			refused++
			now += r.RetryAfter - 1
			early := take().Allowed
			now++
			if late, xtime := take().Allowed, x(); early || !late || !xtime {
				t.Fatalf("%d per %v, burst %d: at %v for %d: %v, theirs %v, %v 1ns before", permits, period, burst, now, cost, late, xtime, early)
			}
		}
	}
}

// windowSizes are fixed windows from the finest tick of a start to the coarsest.
func windowSizes(aligned bool) (all []Limit) {
	for _, permits := range []int64{1, 63, 64, 1000, 1 << 20, 1e9, limits.MaxPermits} {
		for _, period := range []time.Duration{
			1, 2, 997, time.Millisecond, time.Second, 1234567891, time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, limits.MaxPeriod,
		} {
			all = append(all, of(limits.Spec{Permits: permits, Period: period, Aligned: aligned}))
		}
	}
	return all
}

// A window that is not aligned ends when its RetryAfter said, and not before; none begins before the last is over.
func TestWindowEndsWhenItSaid(t *testing.T) {
	t.Parallel()
	for _, l := range windowSizes(false) {
		rng := rand.New(rand.NewPCG(uint64(spec(l).Permits), uint64(spec(l).Period)))
		tab, ids := newTestTable(t, few, l)
		tick := time.Duration(1) << wordTick(l)
		require.Less(t, tick, max(2, spec(l).Period/256), "the start is rounded by little")
		now := time.Duration(rng.Int64N(1 << 45))
		for i := range 20 {
			r := mustApply(t, tab, now, "k", ids[0], limits.Op{Cost: spec(l).Permits})
			require.True(t, r.Allowed, "%v", l)
			end := now + r.FullAfter
			if i == 0 {
				require.LessOrEqual(t, r.FullAfter, spec(l).Period, "nobody waits for longer than a period")
				require.Greater(t, r.FullAfter, spec(l).Period-tick)
			} else {
				require.GreaterOrEqual(t, r.FullAfter, spec(l).Period, "%v", l)
				require.Less(t, r.FullAfter, spec(l).Period+tick)
			}
			for _, at := range []time.Duration{now + time.Duration(rng.Int64N(int64(r.FullAfter))), end - 1} {
				r = mustApply(t, tab, at, "k", ids[0], limits.Op{Cost: 1})
				require.False(t, r.Allowed)
				require.Equal(t, end, at+r.RetryAfter)
			}
			now = end
		}
	}
}

// A use is permits that were granted: when they can be used, and what refunds them, if they were not
// refunded yet. A refund gives back as much as the store likes, but the use does not count from then on.
type use struct {
	at, n    int64
	take     limits.Result
	refunded bool
}

// uses are what was granted of one key. It shares nothing with the code under test.
type uses struct {
	epoch int64 // the time 0 of the table, in ns since 1970
	all   []*use
	ends  map[Limit]int64 // of the window that the latest use is in
}

// add adds a use, which is not before any other, and reports whether it keeps to a limit: whether no more
// than that is in use in any interval that ends with it.
func (u *uses) add(l Limit, at int64, take limits.Result) (keeps bool) {
	s, period := spec(l), int64(spec(l).Period)
	if at >= u.ends[l] {
		if u.ends[l] = at + period; s.Aligned {
			u.ends[l] -= (u.epoch + at) % period
		}
	}
	end := u.ends[l]
	if n := len(u.all); n == 0 || u.all[n-1].take.Receipt != take.Receipt {
		u.all = append(u.all, &use{at: at, n: take.Permits, take: take})
	}
	sum := int64(0)
	for _, from := range slices.Backward(u.all) {
		if from.refunded {
			continue
		}
		permits, away := s.Permits, at-from.at
		counts := away < period
		switch s.Algorithm {
		case limits.TokenBucket:
			if from.take.Wait > 0 {
				away++ // its time was rounded up
			}
			if sum += from.n; (sum-s.Burst)*period > permits*away {
				return false
			}
			continue
		case limits.FixedWindow:
			counts = from.at >= end-period
		case limits.SlidingWindow:
			counts = away+from.at%(period/int64(s.Segments)) < period
		case limits.SlidingCounter: // no period has more than two windows, of which one is weighted
			permits *= 2
		case limits.SlidingLog:
		}
		if counts {
			sum += from.n
		}
		if sum > permits {
			return false
		}
	}
	return true
}

// open returns the last uses that were not refunded, up to n of them, the latest first.
func (u *uses) open(n int) (last []*use) {
	for _, use := range slices.Backward(u.all) {
		if len(last) == n {
			break
		}
		if !use.refunded {
			last = append(last, use)
		}
	}
	return last
}

// A refundCase is under what takes are refunded.
type refundCase struct {
	limits  []Limit // take turns
	bound   Limit   // of what they admit in turns; that of each take, if there is none
	reserve bool
	evict   bool
}

// run takes and refunds at random. It returns how many permits of the refunded takes could be missing from the
// key, and how many of them were given back.
func (c *refundCase) run(t *testing.T, rng *rand.Rand, steps int) (missing, back int64) {
	t.Helper()
	maxKeys := few
	if c.evict {
		maxKeys = 1
	}
	tab, ids := newTestTable(t, maxKeys, c.limits...)
	model, now := &uses{epoch: tab.base.UnixNano(), ends: map[Limit]int64{}}, int64(0)
	l, id := c.limits[0], ids[0]
	apply := func(key string, op limits.Op) limits.Result {
		return mustApply(t, tab, time.Duration(now), key, id, op)
	}
	for range steps {
		if rng.IntN(2) == 0 {
			now += max(1, int64(spec(l).Period)/(4*spec(l).Permits)) * rng.Int64N(6)
		}
		if i := rng.IntN(len(ids)); rng.IntN(4) == 0 {
			l, id = c.limits[i], ids[i]
		}
		if c.evict && rng.IntN(4) == 0 {
			apply("another", limits.Op{Cost: capacityOf(l)})
		}
		if open := model.open(6); len(open) > 0 && rng.IntN(5) < 2 {
			u := open[min(len(open)-1, rng.IntN(6))]
			u.refunded = true
			before := apply("k", limits.Op{})
			after := apply("k", limits.Op{Kind: limits.Refund, Cost: u.n, Receipt: u.take.Receipt})
			missing += min(u.n, before.Limit-before.Remaining)
			back += after.Remaining - before.Remaining
			continue
		}
		op := limits.Op{Cost: 1 + rng.Int64N(capacityOf(l))}
		switch rng.IntN(6) {
		case 0:
			op.Kind = limits.TakeAtMost
		case 1:
			op.Kind = limits.Drain
		case 2:
			if c.reserve {
				op.Kind, op.MaxWait = limits.Reserve, spec(l).Period*2
			}
		}
		if r := apply("k", op); r.Permits > 0 {
			for _, part := range parts(cmp.Or(c.bound, l)) {
				if !model.add(part, now+int64(r.Wait), r) {
					t.Fatalf("%v at %d: %+v %+v", part, now, op, r)
				}
			}
		}
	}
	return missing, back
}

// TestRefundsMintNothing: whatever is taken and refunded, the permits that were not refunded are no more
// than the limit allows.
func TestRefundsMintNothing(t *testing.T) {
	t.Parallel()
	second := time.Second
	bucket, thirds, many := TokenBucket(1, second, 4), TokenBucket(3, second, 5), TokenBucket(100, second, 100)
	window, alignedWindow, log := FixedWindow(4, second), AlignedWindow(4, second), SlidingLog(4, second)
	sliding, counter := SlidingWindow(4, second, 4), SlidingCounter(4, second)
	for name, c := range map[string]refundCase{
		"bucket":           {limits: []Limit{bucket}},
		"bucket reserved":  {limits: []Limit{bucket}, reserve: true},
		"bucket evicted":   {limits: []Limit{bucket}, evict: true},
		"bucket of thirds": {limits: []Limit{thirds}},
		"bucket of many":   {limits: []Limit{many}},
		"window":           {limits: []Limit{window}},
		"aligned evicted":  {limits: []Limit{alignedWindow}, evict: true},
		"aligned":          {limits: []Limit{alignedWindow}},
		"aligned turns":    {limits: []Limit{alignedWindow, AlignedWindow(3, second), AlignedWindow(7, second)}, reserve: true},
		"window turns": {
			limits: []Limit{window, FixedWindow(3, second), FixedWindow(7, second)}, bound: SlidingCounter(7, second), reserve: true,
		},
		"bucket turns": { // a refund can count twice, of up to five permits
			limits: []Limit{bucket, thirds, TokenBucket(2, second, 7)}, bound: TokenBucket(3, second, 12), reserve: true,
		},
		"sliding":          {limits: []Limit{sliding}},
		"sliding reserved": {limits: []Limit{sliding}, reserve: true},
		"sliding turns":    {limits: []Limit{sliding, SlidingWindow(3, second, 4), SlidingWindow(7, second, 4)}, reserve: true},
		"log":              {limits: []Limit{log}},
		"log reserved":     {limits: []Limit{log}, reserve: true},
		"log evicted":      {limits: []Limit{log}, evict: true},
		"log turns":        {limits: []Limit{log, SlidingLog(3, second), SlidingLog(7, second)}, reserve: true},
		"counter":          {limits: []Limit{counter}},
		"joined":           {limits: []Limit{bucket.And(log).And(alignedWindow)}},
		"joined reserved":  {limits: []Limit{bucket.And(log)}, reserve: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var missing, back int64
			for seed := range uint64(300) {
				m, b := c.run(t, rand.New(rand.NewPCG(seed, 5)), 60) //nolint:gosec // a test is repeated by its seed
				missing, back = missing+m, back+b
			}
			t.Logf("given back: %d of %d (%d%%)", back, missing, 100*back/missing)
		})
	}
}
