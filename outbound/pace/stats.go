package pace

import (
	"cmp"
	"slices"
	"time"
)

// Stats are the counters of a [Pacer] and its present state.
type Stats struct {
	Permits       uint64 // given to calls
	Waited        uint64 // of these, after a wait
	Stale         uint64 // permits given up because their shelf life was over
	Lost          uint64 // slots given up because the store had lost its state
	Rejected      uint64 // calls without a permit, also those whose context ended
	StoreErrors   uint64 // reservations that the store could not decide
	Refreshed     uint64 // calls of Refresh
	RefreshFailed uint64 // calls of Refresh that failed, or whose rates are not valid
	HookPanics    uint64

	Waiting  int // calls that wait for their turn
	Reserved int // permits of calls that have their turn, and wait for their slot or the store
}

// Stats returns the counts so far. They are read one after the other.
func (p *Pacer) Stats() Stats {
	s := Stats{
		Permits: p.granted.Load(), Waited: p.waited.Load(), Stale: p.stale.Load(), Lost: p.lost.Load(), Rejected: p.rejected.Load(),
		StoreErrors: p.limiter.Stats().StoreErrors, Refreshed: p.refreshed.Load(), RefreshFailed: p.refreshFailed.Load(), HookPanics: p.life.Panics.Count(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Waiting = p.waiting
	for _, l := range p.lanes {
		s.Reserved += int(l.out)
	}
	return s
}

// A Snapshot is the state of a [Pacer], for a page.
type Snapshot struct {
	Name  string
	Mode  Mode
	Rates []Rate // in force
	Stats Stats
	Keys  []Key // that have calls, or slots ahead, in this process; at most 1,000
}

// A Key is the state of one key in this process.
type Key struct {
	Key      string        // it may be a secret
	Waiting  int           // calls that wait for their turn
	Reserved int           // permits of calls that have their turn
	Ahead    time.Duration // from now to the latest slot that was reserved, or 0
}

const maxSnapshot = 1000

// Snapshot returns the state.
func (p *Pacer) Snapshot() Snapshot {
	set := p.setting()
	s := Snapshot{Name: p.Name(), Mode: set.Mode, Rates: slices.Clone(set.Rates), Stats: p.Stats()}
	p.mu.Lock()
	p.sweep()
	for key, l := range p.lanes {
		if len(s.Keys) == maxSnapshot {
			break
		}
		s.Keys = append(s.Keys, Key{Key: key, Waiting: l.waiting, Reserved: int(l.out), Ahead: max(0, time.Until(l.last))})
	}
	p.mu.Unlock()
	slices.SortFunc(s.Keys, func(a, b Key) int { return cmp.Compare(a.Key, b.Key) })
	return s
}
