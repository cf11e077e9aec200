package ratelimit

import (
	"math/bits"
	"time"
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
	u := usedBits[f.class]
	return uint64(f.shift)<<58 | uint64(f.class)<<55 | uint64(f.tick(start)>>f.shift)<<u&(1<<55-1) | uint64(used)
}

// tick is the first time at or after t that a word can hold.
func (f layout) tick(t int64) int64 { return (t + 1<<f.shift - 1) >> f.shift << f.shift }

// unpack reads a word as of about now.
func unpack(word uint64, now int64) (start, used int64) {
	f := layout{shift: uint(word >> 58), class: uint(word >> 55 & 7)}
	u := usedBits[f.class]
	used = int64(word & (1<<u - 1))
	ticks := now >> f.shift
	away := (int64(word>>u) - ticks) << (64 - f.startBits()) >> (64 - f.startBits()) // sign-extended
	return (ticks + away) << f.shift, used
}

// window decides on a fixed window. Its word was written by from, a plan with the
// same period; nil is a new key. Where that plan let more be taken than there is
// here, nothing is left until its window is over.
func (p *plan) window(word uint64, from *plan, now int64, op Op) (next uint64, r Result, changed bool) {
	n, period := p.limit.Permits, int64(p.limit.Period)
	start, used := p.layout.tick(now), int64(0)
	if from != nil {
		start, used = from.windowAt(word, now)
		start = p.layout.tick(start) // its ticks may be finer
	}
	overdrawn := from != p && used > n
	if overdrawn {
		used = n
	}
	before := used
	r = Result{Plan: p.id, Limit: n, Allowed: true}
	at := start // the window that this op is about
	switch op.Kind {
	case Take, Reserve:
		if op.Cost > n {
			r.Allowed, r.RetryAfter = false, Never
			break
		}
		place := used // the first permit taken, counted from start
		if place%n+op.Cost > n {
			place = (place + n - 1) / n * n // a cost is never split over two windows
		}
		if ahead := place / n; ahead > 0 && op.Cost > 0 {
			at = start + ahead*period
			r.RetryAfter = time.Duration(at - now)
			if op.Kind == Take || overdrawn || r.RetryAfter > op.MaxWait || place+op.Cost > reserveAhead*n {
				r.Allowed = false
				break
			}
			r.Wait, r.RetryAfter = r.RetryAfter, 0
		}
		if op.Cost > 0 {
			used = place + op.Cost
		}
		r.Granted = op.Cost
	case TakeAtMost:
		r.Granted = min(op.Cost, max(0, n-used))
		used += r.Granted
		if r.Granted == 0 && op.Cost > 0 {
			r.Allowed, r.RetryAfter = false, time.Duration(start+used/n*period-now)
		}
	case Refund:
		// Only the last window that is in use gives back: the places of those
		// who wait for later ones do not move.
		if last := max(0, used-1) / n; int64(op.Receipt) == start+last*period {
			used -= min(op.Cost, used-last*n)
		}
	case Reset: // the table forgets the key
	}
	r.Remaining = max(0, n-used)
	if used > 0 {
		if used >= n {
			r.NextAfter = time.Duration(start + used/n*period - now)
		} else {
			r.NextAfter = time.Duration(start + period - now)
		}
		r.FullAfter = time.Duration(start + (used+n-1)/n*period - now)
	}
	r.Receipt = uint64(at)
	return p.layout.pack(start, used), r, used != before
}

// windowAt is where a window stands now: a window that is over has given way to
// those reserved after it, or to none.
func (p *plan) windowAt(word uint64, now int64) (start, used int64) {
	n, period := p.limit.Permits, int64(p.limit.Period)
	start, used = unpack(word, now)
	if now-start >= period {
		over := (now - start) / period
		if used <= over*n {
			return p.layout.tick(now), 0
		}
		start, used = start+over*period, used-over*n
	}
	return start, used
}
