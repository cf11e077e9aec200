package ratelimit

import (
	"math"
	"math/bits"
)

// The word of a fixed window says of itself how it is laid out, so that a key
// can be read under any plan:
//
//	| shift 6 | class 3 | start 55-u | used u |
//
// start is when the window began, in ticks of 2^shift ns, modulo 2^(55-u). used
// is how many permits are taken since; reservations for the windows that follow
// are counted on, so it can be above the limit. The class tells u.
var usedBits = [8]uint{8, 12, 16, 20, 24, 28, 32, 41} //nolint:gochecknoglobals // a constant table

// A layout is the form of the words that a plan writes.
type layout struct {
	shift uint // log2 of the ns in a tick
	class uint
}

// reserveAhead is how many windows, this one included, a word has room for: so far
// ahead can waits reserve.
const reserveAhead = 4

// newLayout is the layout with the finest tick for a limit. A period must fit 32
// times into the start, so that old and new can be told apart.
func newLayout(l Limit) layout {
	var f layout
	for int64(1)<<usedBits[f.class] <= reserveAhead*l.Permits {
		f.class++
	}
	if need, have := uint(bits.Len64(uint64(l.Period-1))), f.startBits()-5; need > have {
		f.shift = need - have
	}
	return f
}

func (f layout) startBits() uint { return 55 - usedBits[f.class] }

// horizon is how often a word of this layout must be looked at, in ns: a start
// that lies nine times as far back can still be told from one ahead.
func (f layout) horizon() int64 { return 1 << (f.startBits() - 5 + f.shift) }

func (f layout) pack(start, used int64) uint64 {
	u := usedBits[f.class&7] & 63
	return uint64(f.shift)<<58 | uint64(f.class)<<55 | uint64(f.tick(start)>>(f.shift&63))<<u&(1<<55-1) | uint64(used)
}

// tick is the first time at or after t that a word can hold.
func (f layout) tick(t int64) int64 {
	shift := f.shift & 63 // spares the check that Go has for longer shifts, here and below: 1.5 ns of a take
	return (t + 1<<shift - 1) >> shift << shift
}

// unpack reads a word as of about now.
func unpack(word uint64, now int64) (start, used int64) {
	shift, u := uint(word>>58), usedBits[word>>55&7]&63
	used = int64(word & (1<<u - 1))
	ticks, high := now>>shift, (9+u)&63
	away := (int64(word>>u) - ticks) << high >> high // of the start, which has 55-u bits, sign-extended
	return (ticks + away) << shift, used
}

// begin is when a window begins that is new now: in the tick of now, but not before
// the one before it is over.
func (p *plan) begin(now, over int64) int64 {
	if p.limit.Aligned {
		return p.align(now)
	}
	if down := now >> p.layout.shift << p.layout.shift; down >= over {
		return down
	}
	return p.layout.tick(now)
}

// align is when the aligned window began that a time is in.
func (p *plan) align(t int64) int64 { return t - (t-p.zero)%int64(p.limit.Period) }

// windowOf returns the start of the window that is on and what is used of it. If another
// plan wrote more than there are permits here, nothing is left until its window ends.
func (p *plan) windowOf(st *state, now int64) (start, used int64) {
	switch st.from {
	case nil:
		return p.begin(now, math.MinInt64), 0
	case p:
		return p.windowAt(st.word, now)
	}
	start, used = st.from.lastWindow(st.word, now)
	switch {
	case used < 0:
		return p.begin(now, start), 0
	case !p.limit.Aligned:
		start = p.layout.tick(start) // its ticks may be finer
	}
	return start, min(used, p.limit.Permits)
}

// windowAt is windowOf for a word that p wrote.
func (p *plan) windowAt(word uint64, now int64) (start, used int64) {
	if start, used = p.lastWindow(word, now); used < 0 {
		return p.begin(now, start), 0
	}
	return start, used
}

// lastWindow reads a word that p wrote: the window that is on, or the end of the last one
// and -1. A window lasts to its end also if nothing is used of it, after a refund. Those
// that follow it are on only if something of them is reserved.
func (p *plan) lastWindow(word uint64, now int64) (start, used int64) {
	start, used = unpack(word, now)
	if p.limit.Aligned {
		start = p.align(start) // it was rounded up
	}
	if period := int64(p.limit.Period); now-start >= period {
		over := (now - start) / period
		start, used = start+over*period, used-over*p.limit.Permits
		if used <= 0 {
			used = -1
		}
	}
	return start, used
}

// overdrawn tells whether another plan let more be taken.
func (p *plan) overdrawn(st *state, now int64) bool {
	if st.from == nil || st.from == p {
		return false
	}
	_, used := st.from.windowOf(st, now)
	return used > p.limit.Permits
}

// windowOver is when a key whose word p wrote is as good as a new one; now if it is.
func (p *plan) windowOver(st *state, now int64) int64 {
	start, used := p.lastWindow(st.word, now)
	if used < 0 || used == 0 && p.limit.Aligned {
		return now
	}
	return start + max(1, (used+p.limit.Permits-1)/p.limit.Permits)*int64(p.limit.Period)
}

// place is the first of cost permits to be taken, counted from the start of the
// window. A cost is never split over two windows.
func (p *plan) place(used, cost int64) int64 {
	n := p.limit.Permits
	if used%n+cost > n {
		return (used + n - 1) / n * n
	}
	return used
}

func (p *plan) windowEarliest(st *state, now, cost int64) int64 {
	start, used := p.windowOf(st, now)
	if ahead := p.place(used, cost) / p.limit.Permits; ahead > 0 {
		return max(now, start+ahead*int64(p.limit.Period))
	}
	return now
}

// windowPlace is the place of a charge at a time.
func (p *plan) windowPlace(start, used, at, cost int64) int64 {
	return max(p.place(used, cost), (at-start)/int64(p.limit.Period)*p.limit.Permits)
}

func (p *plan) windowFits(st *state, now, at, cost int64) bool {
	start, used := p.windowOf(st, now)
	return p.windowPlace(start, used, at, cost)+cost <= reserveAhead*p.limit.Permits && !p.overdrawn(st, now)
}

func (p *plan) windowCharge(st *state, now, at, cost int64) {
	start, used := p.windowOf(st, now)
	st.word = p.layout.pack(start, p.windowPlace(start, used, at, cost)+cost)
}

// windowRefund gives back to the last window that is in use: the places of those
// who hold one in a later window do not move. It stays in the hands of the plan that
// wrote it, whose ticks may be others than those of the take.
func (p *plan) windowRefund(st *state, now, cost, taken int64, receipt uint64) bool {
	w := st.from
	start, used := w.windowOf(st, now)
	last := max(0, used-1) / w.limit.Permits
	took, place := unpack(receipt, taken)
	took += (place - 1) / p.limit.Permits * int64(p.limit.Period)
	tick := int64(1) << max(p.layout.shift, w.layout.shift)
	if away := took - (start + last*int64(w.limit.Period)); used == 0 || away >= tick || away <= -tick {
		return false
	}
	st.word = w.layout.pack(start, used-min(cost, used-last*w.limit.Permits))
	return true
}
