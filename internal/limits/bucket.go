package limits

import (
	"math"
	"time"
)

// A bucket counts time in units of 1/mul of a tick, so that a permit costs a whole number
// of units and nothing is rounded. With 3 permits a second a tick is 1ns, mul is 3, and a
// permit costs 10^9 units. The word of a key is the time, in units modulo 2^64, at which it
// will be full. A receipt is the word after the take, as it would be without refunds: the takes
// after a refunded one are moved forward, but their receipts are not. So Moved is kept until the
// bucket would be full without the refunds, and then no receipt has permits left to give back.
type bucket struct {
	tick     int64  // ns in a tick: more than the clock's only if a full bucket would not fit
	mul      uint64 // units in a tick
	cost     int64  // units of a permit
	capacity int64  // units of a full bucket
	most     int64  // units of the highest debt
	burst    int64  // permits of a full bucket

	permits, ticks divisor // by cost and mul
}

// maxUnits bounds a full bucket, so that with a reservation on top the distance of two
// times stays below half of the range of a word. Lua counts exactly up to 2^53.
const (
	maxUnits      = 1 << 61
	maxUnitsOfLua = 1 << 51
)

// newBucket takes the finest tick that is exact and fits.
func newBucket(s Spec, micros bool) (bucket, bool) {
	tick, most := int64(1), int64(maxUnits)
	if micros {
		tick, most = 1000, maxUnitsOfLua
	}
	g := gcd(int64(s.Period), s.Permits*tick)
	mul, cost := s.Permits*tick/g, int64(s.Period)/g
	for cost > most/s.Burst { // take a tick that is ten times as long
		g = gcd(10, cost)
		if g == 1 || tick > math.MaxInt64/10 || mul > maxUnits/2/(10/g) { // the horizon must have a tick
			return bucket{}, false
		}
		tick, mul, cost = tick*10, mul*(10/g), cost/g
	}
	return bucket{
		tick: tick, mul: uint64(mul), cost: cost, capacity: cost * s.Burst, most: 2 * most, burst: s.Burst,
		permits: newDivisor(cost), ticks: newDivisor(mul),
	}, true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// now is a time in units, modulo 2^64, and the part of a tick that is left.
func (b *bucket) now(t int64) (units uint64, rest int64) {
	if b.tick == 1 {
		return uint64(t) * b.mul, 0
	}
	return uint64(t/b.tick) * b.mul, t % b.tick
}

// horizon is an eighth of half of the range of a word.
func (b *bucket) horizon() int64 {
	ticks := (1 << 60) / b.mul
	if ticks > uint64(math.MaxInt64/b.tick) {
		return math.MaxInt64
	}
	return int64(ticks) * b.tick
}

// after is how long it takes until that many units have passed, rounded up.
func (b *bucket) after(units, rest int64) time.Duration {
	if units <= 0 {
		return 0
	}
	ticks := units
	if b.mul != 1 {
		ticks, _ = b.ticks.of(units + int64(b.mul) - 1)
	}
	if b.tick == 1 {
		return time.Duration(ticks)
	}
	if ticks > math.MaxInt64/b.tick {
		return math.MaxInt64
	}
	return time.Duration(ticks*b.tick - rest)
}

// debt returns the debt of a word at a time, in units.
func debt(word, units uint64) int64 { return max(0, int64(word-units)) }

// excess is by how much a cost is more than there is; up to 0 it can be taken.
func (b *bucket) excess(debt, cost int64) int64 { return debt + cost*b.cost - b.capacity }

// whole returns the permits in a bucket, and the units of the next one that are there.
func (b *bucket) whole(debt int64) (permits, part int64) {
	if part = b.capacity - debt; part <= 0 {
		return 0, part
	}
	return b.permits.of(part)
}

// TakeBucket takes cost permits, 1 to the capacity, of the word of a bucket, as [Key.Apply] does
// for a key that was counted under it.
func (r *Rule) TakeBucket(word *uint64, now, cost int64, to *Result) {
	b := &r.bucket
	units, rest := b.now(now)
	owed := debt(*word, units)
	if over := b.excess(owed, cost); over > 0 {
		to.RetryAfter = b.after(over, rest)
	} else {
		owed = over + b.capacity
		*word = units + uint64(owed)
		to.Allowed, to.Permits, to.Receipt.Parts[0] = true, cost, *word
	}
	to.Limit, to.Receipt.Plan, to.Receipt.At = r.Capacity, r.plan, now
	n, part := b.whole(owed)
	if to.Remaining = n; n < b.burst {
		to.NextAfter = b.after(b.cost-part, rest)
	}
	to.FullAfter = b.after(owed, rest)
}

// OfDebt is how a key stands under a bucket, from what it owes in units.
func (r *Rule) OfDebt(debt, now, cost int64) Raw {
	_, rest := r.bucket.now(now)
	return r.bucket.raw(debt, now, rest, cost)
}

func (b *bucket) raw(owed, now, rest, cost int64) Raw {
	n, part := b.whole(owed)
	raw := Raw{n, now + int64(b.after(b.excess(owed, cost), rest)), now, now + int64(b.after(owed, rest))}
	if n < b.burst {
		raw[more] += int64(b.after(b.cost-part, rest))
	}
	return raw
}

func (b *bucket) look(s State, now, cost int64) Raw {
	units, rest := b.now(now)
	return b.raw(debt(s.Word, units), now, rest, cost)
}

func (b *bucket) due(s State, now int64) int64 { return b.look(s, now, 0)[earliest] }

func (b *bucket) used(s State, at int64) (num, den int64) {
	units, _ := b.now(at)
	return debt(s.Word, units), b.cost
}

// ahead is by how many units a time lies ahead, at the tick after it; if that is too far, it is the most that it can be, and false.
func (b *bucket) ahead(now, at int64) (units int64, ok bool) {
	ticks, most := uint64(at/b.tick-now/b.tick), uint64(b.most)/b.mul
	if at%b.tick > 0 {
		ticks++
	}
	return int64(min(ticks, most) * b.mul), ticks <= most
}

func (b *bucket) put(now, at, num, den int64) (State, bool) {
	later, near := b.ahead(now, at)
	owed, ok := MulDiv(num, b.cost, den, b.most)
	units, _ := b.now(now)
	return State{Word: units + uint64(later+owed)}, near && ok && later+owed <= b.most
}

// hold lets nothing be taken before a time, at which permits are reserved: it empties a bucket at that time. Other states do so anyway.
func (r *Rule) hold(s State, now, at int64) State {
	if at <= now || r.Spec.Algorithm != TokenBucket {
		return s
	}
	b := &r.bucket
	later, near := b.ahead(now, at)
	units, _ := b.now(now)
	if empty := later + b.capacity; near && debt(s.Word, units) < empty {
		s.Word = units + uint64(min(empty, b.most))
	}
	return s
}

func (b *bucket) fits(s State, now, at, cost int64) bool {
	later, near := b.ahead(now, at)
	units, _ := b.now(now)
	return near && max(debt(s.Word, units), later)+cost*b.cost <= b.most
}

// charge adds to the debt. If others make the permits come later than own, the bucket does
// not fill until then. A waiter came at the first tick after its time, and the bucket does
// not lose the fraction in between.
func (b *bucket) charge(s State, now, own, at, cost int64) (State, uint64) {
	units, _ := b.now(now)
	owed := debt(s.Word, units)
	if at > own {
		later, _ := b.ahead(now, at)
		owed = max(owed, later)
	}
	moved := s.moved(units)
	s = State{Word: units + uint64(owed+cost*b.cost), Moved: moved}
	return s, s.Word + moved
}

// moved returns what counts of Moved at a time.
func (s State) moved(units uint64) uint64 {
	return uint64(debt(s.Word+s.Moved, units) - debt(s.Word, units))
}

// refund gives back the part of a take that time has not repaid already. There are two lower bounds of
// that part, and it is the larger one: the debt without all that was taken after the take, refunded or
// not; and the charge without all that has recovered since. While permits are reserved ahead, only those
// that were not reserved behind the take are given back: reservations do not move.
func (b *bucket) refund(s State, now, cost int64, receipt uint64, taken int64) (State, bool) {
	units, _ := b.now(now)
	since, _ := b.now(taken)
	owed, moved := debt(s.Word, units), s.moved(units)
	charge := min(cost, b.burst) * b.cost
	unpaid := int64(receipt - moved - units)
	after := owed - unpaid // what was taken after it
	if after < 0 {
		return s, false // the key does not know of the take
	}
	part := max(unpaid, charge-int64(units-since))
	if owed > b.capacity {
		charge -= after
	}
	back := min(charge, part, owed)
	if after > 0 {
		back = min(back, b.most/4-int64(moved))
		moved += uint64(max(0, back))
	}
	if back <= 0 {
		return s, false
	}
	return State{Word: units + uint64(owed-back), Moved: moved}, true
}

// over is when the bucket would be full without refunds.
func (b *bucket) over(s State, now int64) int64 {
	return b.look(State{Word: s.Word + s.Moved}, now, 0)[full]
}

func (b *bucket) fresh(now int64) State {
	units, _ := b.now(now)
	return State{Word: units}
}

func (b *bucket) touch(s State, now int64) State {
	units, _ := b.now(now)
	return State{Word: units + uint64(debt(s.Word, units)), Moved: s.moved(units)}
}

func (b *bucket) recovery(int64) int64 { return int64(b.after(b.capacity, 0)) }
