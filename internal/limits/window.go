package limits

import (
	"math/bits"
	"time"
)

// The word of a fixed window says of itself how it is laid out:
//
//	| shift 6 | class 3 | start 55-u | used u |
//
// start is when the window began, in ticks of 2^shift ns, modulo 2^(55-u). used is how many
// permits were taken since; reservations for the windows that follow are counted on, so it
// can be above the limit. The class gives u.
var usedBits = [8]uint{8, 12, 16, 20, 24, 28, 32, 41} //nolint:gochecknoglobals // a constant table

// A window is a FixedWindow. A Raw is the start of the window that is on and the use of
// it; used is negative, and start the end of the last one, if none is on.
type window struct {
	period, permits int64
	aligned         bool
	zero            int64 // of an aligned one: when a window began, at or before 0
	shift, class    uint  // of the layout: the finest tick for the limit
}

// newWindow takes the finest tick. A period must fit 32 times into the start, so that past
// and future differ.
func newWindow(s Spec, unix int64) window {
	w := window{period: int64(s.Period), permits: s.Permits, aligned: s.Aligned}
	for int64(1)<<usedBits[w.class] <= reserveAhead*s.Permits {
		w.class++
	}
	if need, have := uint(bits.Len64(uint64(s.Period-1))), w.startBits()-5; need > have {
		w.shift = need - have
	}
	if s.Aligned {
		w.zero = -(unix % w.period)
	}
	return w
}

func (w *window) startBits() uint { return 55 - usedBits[w.class] }

// horizon is so short that a start that lies nine times as far back is still read as past.
func (w *window) horizon() int64 { return 1 << (w.startBits() - 5 + w.shift) }

func (w *window) pack(start, used int64) uint64 {
	u := usedBits[w.class&7] & 63
	return uint64(w.shift)<<58 | uint64(w.class)<<55 | uint64(w.ceil(start)>>(w.shift&63))<<u&(1<<55-1) | uint64(used)
}

// ceil is the first time at or after t that a word can hold.
func (w *window) ceil(t int64) int64 {
	shift := w.shift & 63 // spares the check that Go has for longer shifts, here and below
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

// begin is when a window begins that is new now: in the tick of now, but not before the one
// before it is over.
func (w *window) begin(now, over int64) int64 {
	if w.aligned {
		return w.align(now)
	}
	if down := now >> w.shift << w.shift; down >= over {
		return down
	}
	return w.ceil(now)
}

// align is when the aligned window began that a time is in.
func (w *window) align(t int64) int64 { return t - (t-w.zero)%w.period }

// last reads a word: the window that is on, or the end of the last one and -1.
func (w *window) last(word uint64, now int64) (start, used int64) {
	start, used = unpack(word, now)
	if w.aligned {
		start = w.align(start) // it was rounded up
	}
	return w.roll(start, used, now)
}

// roll goes on to now. A window lasts to its end also if nothing is used of it, after a
// refund. Those that follow it are on only if something of them is reserved.
func (w *window) roll(start, used, now int64) (int64, int64) {
	if now-start >= w.period {
		over := (now - start) / w.period
		start, used = start+over*w.period, used-over*w.permits
		if used <= 0 {
			used = -1
		}
	}
	return start, used
}

// at is the window that is on, or one that begins now.
func (w *window) at(word uint64, now int64) (start, used int64) {
	if start, used = w.last(word, now); used < 0 {
		return w.begin(now, start), 0
	}
	return start, used
}

// place is the first of cost permits to be taken, counted from the start of the window. A
// cost is never split over two windows.
func (w *window) place(used, cost int64) int64 {
	n := w.permits
	if used%n+cost > n {
		return (used + n - 1) / n * n
	}
	return used
}

// placeAt is the place of a charge at a time.
func (w *window) placeAt(start, used, at, cost int64) int64 {
	return max(w.place(used, cost), (at-start)/w.period*w.permits)
}

// end is when the last window ends that is in use, or the one that is on.
func (w *window) end(start, used int64) int64 {
	return start + max(1, (used+w.permits-1)/w.permits)*w.period
}

// TakeWindow takes cost permits, 1 to the limit, of the word of a fixed window, as [Key.Apply] does
// for a key that has no other count. If some are reserved for a later window it returns false, and does
// nothing.
func (r *Rule) TakeWindow(word *uint64, now, cost int64, to *Result) bool {
	w := &r.window
	start, used := w.at(*word, now)
	end := time.Duration(start + w.period - now)
	switch {
	case used > w.permits || end <= 0:
		return false
	case used+cost > w.permits:
		to.RetryAfter = end
	default:
		used += cost
		*word = w.pack(start, used)
		r.granted(*word, cost, to)
	}
	to.Limit, to.Plan, to.Receipt.At = r.Capacity, r.ID, now
	to.Remaining, to.NextAfter, to.FullAfter = w.permits-used, end, end
	return true
}

func (w *window) look(s State, now, _ int64) Raw {
	start, used := w.at(s.Word, now)
	return Raw{start, used}
}

func (w *window) available(r Raw, _ int64) int64 { return max(0, w.permits-r[1]) }

func (w *window) earliest(r Raw, now, cost int64) int64 {
	if ahead := w.place(r[1], cost) / w.permits; ahead > 0 {
		return max(now, r[0]+ahead*w.period)
	}
	return now
}

func (w *window) full(r Raw, now int64) int64 {
	if r[1] <= 0 {
		return now
	}
	return w.end(r[0], r[1])
}

func (w *window) fits(s State, now, at, cost int64) bool {
	start, used := w.at(s.Word, now)
	return w.placeAt(start, used, at, cost)+cost <= reserveAhead*w.permits
}

func (w *window) charge(s State, now, _, at, cost int64) (State, uint64) {
	start, used := w.at(s.Word, now)
	s.Word = w.pack(start, w.placeAt(start, used, at, cost)+cost)
	return s, s.Word
}

// refund gives back to the last window that is in use: places in a later window do not
// move.
func (w *window) refund(s State, now, cost int64, receipt uint64, taken int64) (State, bool) {
	start, used := w.at(s.Word, now)
	last := max(0, used-1) / w.permits
	took, place := unpack(receipt, taken)
	took += (place - 1) / w.permits * w.period
	tick := int64(1) << w.shift
	if away := took - (start + last*w.period); used == 0 || away >= tick || away <= -tick {
		return s, false
	}
	s.Word = w.pack(start, used-min(cost, used-last*w.permits))
	return s, true
}

// over is when the tick has ended in which the last window ends: a new window begins in the tick of its
// first take.
func (w *window) over(s State, now int64) int64 {
	start, used := unpack(s.Word, now)
	if !w.aligned {
		return max(now, w.ceil(w.end(start, used)))
	}
	if used == 0 {
		return now
	}
	return max(now, w.end(w.align(start), used))
}

// fresh is a window that is over.
func (w *window) fresh(now int64) State { return State{Word: w.pack(now-w.period-2<<w.shift, 0)} }

// touch leaves a window that is on as it is: it can be read to its end, and one that is reserved would
// end up to a tick later if it were packed anew.
func (w *window) touch(s State, now int64) State {
	if w.over(s, now) > now {
		return s
	}
	return w.fresh(now)
}

func (w *window) owing(until, permits, now int64) State {
	start := min(until-w.period, now+4*w.horizon())
	return State{Word: w.pack(w.ceil(start), min(permits, w.permits))}
}

func (w *window) recovery(now int64) int64 {
	if w.aligned {
		return w.align(now) + w.period - now
	}
	return w.period
}
