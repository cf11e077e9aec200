package limits

import (
	"math"
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

// A window is a FixedWindow. Its state is a word, as above; or, if the window lies ahead, its start and its use.
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

// lies returns a window that was ahead when it was written.
func (s State) lies() (start, used int64, ahead bool) {
	return int64(s.Word), int64(s.Moved) - 1, s.Moved > 0
}

// at is the window that is on, or one that begins now, or one that lies ahead.
func (w *window) at(s State, now int64) (start, used int64) {
	start, used, ahead := s.lies()
	if !ahead {
		start, used = w.last(s.Word, now)
	} else if start <= now {
		start, used = w.roll(start, used, now)
	}
	if used < 0 {
		return w.begin(now, start), 0
	}
	return start, used
}

// state is the state of a window.
func (w *window) state(start, used, now int64) State {
	if start-now >= 1<<(w.shift&63) {
		return State{Word: uint64(start), Moved: uint64(used + 1)}
	}
	return State{Word: w.pack(start, used)}
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

// end is when the last window ends that is in use, or the one that is on.
func (w *window) end(start, used int64) int64 {
	return start + max(1, (used+w.permits-1)/w.permits)*w.period
}

// TakeWindow takes cost permits, 1 to the limit, of the word of a fixed window, as [Key.Apply] does
// for a key that was counted under it. If some are reserved for a later window it returns false, and does
// nothing.
func (r *Rule) TakeWindow(word *uint64, now, cost int64, to *Result) bool {
	w := &r.window
	start, used := w.last(*word, now)
	if used < 0 {
		start, used = w.begin(now, start), 0
	}
	end := time.Duration(start + w.period - now)
	switch {
	case used > w.permits || end <= 0:
		return false
	case used+cost > w.permits:
		to.RetryAfter = end
	default:
		used += cost
		*word = w.pack(start, used)
		to.Allowed, to.Permits, to.Receipt.Parts[0] = true, cost, uint64(start)
	}
	to.Limit, to.Receipt.Plan, to.Receipt.At = r.Capacity, r.plan, now
	to.Remaining, to.NextAfter, to.FullAfter = w.permits-used, end, end
	return true
}

// OfWindow is how a key stands under a fixed window, from the start of the one that is on and the permits used since.
func (r *Rule) OfWindow(start, used, now, cost int64) Raw {
	return r.window.raw(start, used, now, now, cost)
}

// raw is how a key stands of which nothing can be taken before a time, now or later.
func (w *window) raw(start, used, from, now, cost int64) Raw {
	left := max(0, w.permits-used)
	if from > now {
		left = 0
	}
	return rawOf(w.permits, left, now, cost, func(cost int64) int64 {
		if ahead := w.place(used, cost) / w.permits; ahead > 0 {
			return max(from, start+ahead*w.period)
		}
		return from
	})
}

func (w *window) look(s State, now, cost int64) Raw {
	start, used := w.at(s, now)
	from := now
	if s.Moved > 0 {
		from = max(now, start)
	}
	return w.raw(start, used, from, now, cost)
}

// final is the last window that is in use, and its use.
func (w *window) final(start, used int64) (int64, int64) {
	before := max(0, used-1) / w.permits
	return start + before*w.period, used - before*w.permits
}

func (w *window) due(s State, now int64) int64 {
	start, used := w.at(s, now)
	if s.Moved == 0 && used <= w.permits {
		return now
	}
	start, _ = w.final(start, used)
	return max(now, start)
}

func (w *window) used(s State, at int64) (num, den int64) {
	_, used := w.at(s, at)
	return used, 1
}

func (w *window) put(now, at, num, den int64) (State, bool) {
	used := ceilDiv(num, den)
	if used == 0 && at == now {
		return w.fresh(now), true
	}
	start, last := w.final(at, used)
	if w.aligned {
		start = w.align(start)
	}
	if start < at && at > now {
		start += w.period
	}
	return w.state(start, last, now), used/w.permits <= math.MaxInt64/4/w.period
}

// same is the state of another window of the period, which differs in the number of permits only.
func (w *window) same(s State, of *window, now int64) State {
	start, used := of.final(of.at(s, now))
	return w.state(start, min(used, w.permits), now)
}

// placed is the place of a charge at a time.
func (w *window) placed(start, used, at, cost int64) int64 {
	return max(w.place(used, cost), (at-start)/w.period*w.permits)
}

func (w *window) fits(s State, now, at, cost int64) bool {
	start, used := w.at(s, now)
	before := max(0, start-now+w.period-1) / w.period // windows until the first
	return w.placed(start, used, at, cost)+cost <= (reserveAhead-before)*w.permits
}

// charge counts from the window that is on. A charge that lies beyond all that is in use begins a window of its own.
func (w *window) charge(s State, now, _, at, cost int64) (State, uint64) {
	start, used := w.at(s, now)
	if at > now && (used == 0 && start <= now || at > w.end(start, used)) {
		if start, used = at, cost; w.aligned {
			start = w.align(at)
		}
	} else {
		used = w.placed(start, used, at, cost) + cost
	}
	began, _ := w.final(start, used)
	return w.state(start, used, now), uint64(began)
}

// refund gives back to the last window that is in use: places in a later window do not
// move.
func (w *window) refund(s State, now, cost int64, receipt uint64, _ int64) (State, bool) {
	start, used := w.at(s, now)
	began, last := w.final(start, used)
	tick := int64(1) << w.shift
	if away := int64(receipt) - began; used == 0 || away >= tick || away <= -tick {
		return s, false
	}
	return w.state(start, used-min(cost, last), now), true
}

// over is when the tick has ended in which the last window ends: a new window begins in the tick of its
// first take.
func (w *window) over(s State, now int64) int64 {
	start, used, ahead := s.lies()
	if !ahead {
		start, used = unpack(s.Word, now)
	}
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
	switch start, used := w.at(s, now); {
	case w.over(s, now) <= now:
		return w.fresh(now)
	case s.Moved > 0:
		return w.state(start, used, now)
	}
	return s
}

func (w *window) recovery(now int64) int64 {
	if w.aligned {
		return w.align(now) + w.period - now
	}
	return w.period
}
