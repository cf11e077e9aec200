package bulkhead

import "sync/atomic"

// A word is the part of a cell that calls change without a lock: the number of free permits, and of calls admitted since the lock was last
// released. While the lock is held, or calls wait, permits can be returned without the lock, but not taken.
type word struct{ atomic.Uint64 }

const (
	none      = 1 << 31 // the lower half is none plus the free permits, which can be negative
	permits   = 1<<32 - 1
	admission = 1 << 32 // one admitted call
	harvest   = 1 << 62 // from here on, the next call must take the lock, which reads and clears the number of calls
	locked    = 1 << 63 // calls must take the lock
)

func free(w uint64) int          { return int(int64(w&permits) - none) }
func admissions(w uint64) uint64 { return w &^ locked >> 32 }

// take takes n permits. It returns false if they are not free, if n is below 1, or if the caller must take the lock.
//
// If another processor has changed the word first, take spins for a few microseconds before it tries again. If they changed it in turn,
// each change would cost a transfer of its cache line (BenchmarkAcquire/free,parallel).
func (w *word) take(n int) bool {
	for spins := 1024; ; spins = min(2*spins, 8192) {
		state := w.Load()
		if state >= harvest || n < 1 || n > free(state) {
			return false
		}
		if w.CompareAndSwap(state, state+admission-uint64(n)) {
			return true
		}
		for range spins {
		}
	}
}

// add returns n permits, or changes their number by n.
func (w *word) add(n int) (state uint64) { return w.Add(uint64(int64(n))) }

// none reports whether no permit is free and the caller need not take the lock.
func (w *word) none() bool {
	state := w.Load()
	return state < harvest && uint32(state) <= none
}
