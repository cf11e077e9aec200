package bulkhead

import "sync/atomic"

// A word is the state of a key that calls change without a lock: the permits that are
// free, the calls admitted since the last harvest, and whether calls must take the lock.
type word struct{ atomic.Uint64 }

const (
	none      = 1 << 31 // the lower half is none plus the free permits, which can be negative
	permits   = 1<<32 - 1
	admission = 1 << 32 // one admitted call
	harvest   = 1 << 62 // so many calls are admitted that their number must be read
	locked    = 1 << 63 // calls wait, or the cell is closed or forgotten
	slow      = locked | harvest
)

func free(w uint64) int          { return int(int64(w&permits) - none) }
func admissions(w uint64) uint64 { return w &^ locked >> 32 }

// take takes n permits, 1 to mostPermits. It fails if they are not free, or if the caller
// must take the lock.
func (w *word) take(n int) bool {
	for spins := 0; ; {
		ok, again := w.try(n)
		if !again {
			return ok
		}
		spins = pause(spins)
	}
}

// try is take without a loop: again is set if another call has changed the word.
func (w *word) try(n int) (ok, again bool) {
	state := w.Load()
	if state&slow != 0 || uint32(state) < uint32(n)+none {
		return false, false
	}
	ok = w.CompareAndSwap(state, state+admission-uint64(n))
	return ok, !ok
}

// refuses reports whether n permits are not free, without the lock.
func (w *word) refuses(n int) bool {
	state := w.Load()
	return state&slow == 0 && uint32(state) < uint32(n)+none
}

// pause lets the other processors proceed. If two processors change the word in turn,
// each change costs a transfer of its cache line: BenchmarkAcquire/free,parallel.
func pause(spins int) int {
	spins = min(2*spins+1024, 8192)
	for range spins {
	}
	return spins
}

// add returns n permits, or changes their number by n.
func (w *word) add(n int) (state uint64) { return w.Add(uint64(int64(n))) }
