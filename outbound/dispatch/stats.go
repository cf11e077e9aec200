package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// Stats are the counters of a [Dispatcher] and its present state.
type Stats struct {
	Calls      uint64 // accepted; each completes in one of the next four
	Succeeded  uint64
	Failed     uint64 // by any other error, also of Dial or Limiter, or by a panic
	GaveUp     uint64 // refused by the vendor as often as Attempts permits
	Canceled   uint64 // the context ended, or Close canceled the call, or a loop left its stream
	Rejected   uint64 // not accepted: closed, or too many calls
	Attempts   uint64 // that have ended
	Limited    uint64 // attempts that the vendor refused because of a limit
	Cooldowns  uint64 // that began; extending one is not counted
	Dials      uint64 // that began
	Evicted    uint64 // idle connections closed for another key
	HookPanics uint64 // panics of hooks, and of Close of the Config

	StoreFailures uint64 // times that the Store became unavailable

	Active      int // calls that are accepted and not completed
	Connections int // open ones, and those being dialed
	Idle        int // of these
	Waiting     int // calls that wait for a connection
	InFlight    int // attempts
	Limit       int // attempts that may be in flight at present
}

// An ending is how a call completed.
type ending uint8

const (
	failed ending = iota // also if the user's function did not return
	succeeded
	gaveUp
	canceled
)

func (e ending) of(s *Stats) *uint64 {
	return [...]*uint64{&s.Failed, &s.Succeeded, &s.GaveUp, &s.Canceled}[e]
}

// Stats returns the counts so far. They are read one after the other.
func (d *Dispatcher[K, C]) Stats() Stats {
	d.mu.Lock()
	s := d.stats
	s.Active = d.active
	d.mu.Unlock()
	p := &d.pool
	p.mu.Lock()
	s.Dials, s.Evicted, s.Connections, s.Idle, s.Waiting = p.dials, p.evicted, p.used, p.idle, p.queue.Len()
	p.mu.Unlock()
	flight := d.flight.Stats()
	s.InFlight, s.Limit = flight.InFlight, flight.Limit
	cool := d.cool.Stats()
	s.Attempts, s.Limited, s.Cooldowns, s.StoreFailures = d.attempts.Load(), d.limited.Load(), cool.Holds+d.own.Stats().Holds, cool.StoreFailures
	s.HookPanics = d.life.Panics.Count()
	return s
}

// A Snapshot is the state of a [Dispatcher], for a page.
type Snapshot struct {
	Name  string
	Stats Stats
	Held  []Hold // the cooldowns in force, the vendor's first
}

// A Hold is a cooldown in force.
type Hold struct {
	Scope   Scope
	Account string // of ScopeAccount; it may be a secret
	Until   time.Time
}

// Snapshot returns the state.
func (d *Dispatcher[K, C]) Snapshot() Snapshot {
	s := Snapshot{Name: d.Name(), Stats: d.Stats()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, held := range d.held {
		if time.Now().Before(held.until) {
			scope, account := scopeOf(key)
			s.Held = append(s.Held, Hold{scope, account, held.until})
		}
	}
	slices.SortFunc(s.Held, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Account, b.Account))
	})
	return s
}
