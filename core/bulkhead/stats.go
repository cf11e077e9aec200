package bulkhead

import (
	"fmt"
	"iter"
	"slices"
)

// Stats are the counters of a [Bulkhead] and its present state. Those of the state are
// sums over the keys.
type Stats struct {
	Admitted    uint64 // calls, also those that waited
	Waited      uint64 // calls that were admitted after a wait
	Rejected    uint64 // calls that were not admitted
	Canceled    uint64 // calls that were not admitted as their context or the bulkhead had ended
	Lowered     uint64 // times that a failure lowered a limit
	Raised      uint64 // times that successes raised a limit
	StoreErrors uint64 // calls that the Store could not decide
	Lost        uint64 // calls that lost their permits in the Store
	Keys        int    // keys that are kept, apart from the empty one
	InFlight    int    // permits that calls of this bulkhead hold
	Limit       int    // permits that may be in flight
	Waiting     int    // calls of this bulkhead that wait
}

// String returns the stats in one line, as in "in_flight=8/25 waiting=0 admitted=120 rejected=3".
func (s Stats) String() string {
	return fmt.Sprintf("in_flight=%d/%d waiting=%d admitted=%d rejected=%d", s.InFlight, s.Limit, s.Waiting, s.Admitted, s.Rejected)
}

// Stats returns the counts so far. They are read one after the other. It also forgets keys
// that were idle for a minute, as far as an earlier call of Stats, or the arrival of other
// keys, has seen them idle. The empty key is in the sums if it was used, or if there is no
// other one.
func (b *Bulkhead) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.visit(len(b.cells), b.now(), false)
	s := Stats{
		Admitted: b.forgotten, Waited: b.waited.Load(), Rejected: b.refused.Load(), Canceled: b.canceled.Load(),
		StoreErrors: b.storeErrors.Load(), Lost: b.lost.Load(), Lowered: b.lowered.Load(), Raised: b.raised.Load(), Keys: len(b.cells),
	}
	for _, c := range append([]*cell{&b.unkeyed}, b.cells...) {
		k := c.stats()
		s.Admitted += k.Admitted
		s.InFlight += k.InFlight
		s.Waiting += k.Waiting
		if c.key != "" || k.Admitted > 0 || len(b.cells) == 0 {
			s.Limit += k.Limit
		}
	}
	return s
}

// Key returns the state of a key: InFlight, Limit and Waiting, and Admitted since the key
// is kept. It is false if the key is not kept: no call of it is in flight, and none waits.
func (b *Bulkhead) Key(key string) (Stats, bool) {
	if key == "" {
		return b.unkeyed.stats(), true
	}
	c, ok := b.byKey.Load(key)
	if !ok {
		return Stats{}, false
	}
	return c.(*cell).stats(), true
}

// All iterates over the keys that were kept when it is called, apart from the empty one, in
// no order, each with its state as in [Bulkhead.Key].
func (b *Bulkhead) All() iter.Seq2[string, Stats] {
	b.mu.Lock()
	defer b.mu.Unlock()
	cells := slices.Clone(b.cells)
	return func(yield func(string, Stats) bool) {
		for _, c := range cells {
			if !yield(c.key, c.stats()) {
				return
			}
		}
	}
}
