// Package gatestoretest has a store for gates in memory, which does what that in Redis does.
package gatestoretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// A Vendor is what the processes share of one vendor.
type Vendor struct {
	half time.Duration        // of a round trip
	now  func() time.Duration // the clock
	down atomic.Bool

	mu      sync.Mutex
	log     []string // the operations
	keys    map[gatestore.Key]*scope
	seq     uint64
	places  map[uint64]time.Duration // the ends of leases
	freed   time.Duration
	procs   map[string]time.Duration // when they were seen
	wait    []*waiter
	lim     int
	most    int
	won     int
	soon    bool
	resumed time.Duration
}

type scope struct {
	gen, prev              uint64
	till, over, tail, pace time.Duration
	room                   int
	out                    []turn
	changed                bool // by the operation: then it is forgotten if nothing of it is left
}

type (
	turn struct {
		id  uint64
		end time.Duration
	}
	waiter struct {
		name        string
		since, last time.Duration
	}
)

// New returns a vendor at a distance. The clock, which can be nil, tells the time since some day in the past.
func New(trip time.Duration, clock func() time.Duration) *Vendor {
	if begun := time.Now(); clock == nil {
		clock = func() time.Duration { return time.Hour + time.Since(begun) }
	}
	return &Vendor{
		half: trip / 2, now: clock, keys: map[gatestore.Key]*scope{},
		places: map[uint64]time.Duration{}, procs: map[string]time.Duration{},
	}
}

// Fail makes the store unavailable, or available again.
func (f *Vendor) Fail(down bool) { f.down.Store(down) }

// Log returns the operations so far, each as "process: operation".
func (f *Vendor) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

var errDown = errors.New("connection refused")

// begin is the way to the store, and the work that is done by each script. done is the way back.
func (f *Process) begin(op string, keys ...gatestore.Key) (now time.Duration, done func(), err error) {
	time.Sleep(f.half)
	if f.down.Load() || f.dead.Load() {
		return 0, nil, errDown
	}
	f.mu.Lock()
	if now = f.now(); len(f.log) == 0 {
		f.freed = now
	}
	f.log = append(f.log, fmt.Sprint(f.name, ": ", op))
	for _, k := range append([]gatestore.Key{{Vendor: true}}, keys...) {
		if s := f.key(k); s.room > 0 && now >= s.till {
			for len(s.out) > 0 && s.out[0].end <= now {
				if _, ok := f.places[s.out[0].id]; ok {
					delete(f.places, s.out[0].id)
					f.freed = now
				}
				s.changed = true
				if s.out = s.out[1:]; s.room == 1 {
					s.over = now + 10*time.Second
				}
			}
			if s.room >= 64 || now >= s.over && (s.room > 1 || len(s.out) == 0) {
				s.room, s.out = 0, nil
			}
		}
	}
	maps.DeleteFunc(f.places, func(_ uint64, end time.Duration) bool { return end <= now })
	maps.DeleteFunc(f.procs, func(_ string, at time.Duration) bool { return at+10*time.Second <= now })
	f.wait = slices.DeleteFunc(f.wait, func(w *waiter) bool { return w.last+200*time.Millisecond <= now })
	return now, func() {
		maps.DeleteFunc(f.keys, func(k gatestore.Key, s *scope) bool { return !k.Vendor && s.gone(now) })
		f.mu.Unlock()
		time.Sleep(f.half)
	}, nil
}

func (f *Vendor) key(k gatestore.Key) *scope {
	if f.keys[k] == nil {
		f.keys[k] = &scope{}
	}
	return f.keys[k]
}

// gone reports whether a key was changed, and nothing of it is left.
func (s *scope) gone(now time.Duration) bool {
	changed := s.changed
	s.changed = false
	return changed && now >= s.till && now >= s.tail && now >= s.pace && (s.room == 0 || now >= s.over && len(s.out) == 0)
}

func (f *Vendor) saw(process string, now time.Duration) {
	if f.procs[process]+time.Second <= now {
		f.procs[process] = now
	}
}

func keysOf(draws []gatestore.Draw) (keys []gatestore.Key) {
	for _, d := range draws {
		keys = append(keys, d.Key)
	}
	return keys
}

func (f *Vendor) state() gatestore.State {
	return gatestore.State{Processes: len(f.procs), InFlight: len(f.places), MaxInFlight: f.lim}
}

func poll(since time.Duration) time.Duration {
	return min(max(since/2, 50*time.Millisecond), 500*time.Millisecond)
}

// Pass is for a gate.
func (f *Process) Pass(_ context.Context, a gatestore.Ask) (g gatestore.Grant, err error) {
	now, done, err := f.begin("pass", keysOf(a.Draws)...)
	if err != nil {
		return g, err
	}
	defer done()
	if a.InFlight != f.most {
		if f.lim == f.most || f.lim > a.InFlight {
			f.lim = a.InFlight
		}
		f.most = a.InFlight
	}
	for len(g.Slots) < a.Calls {
		if a.Mode != gatestore.Reserve && (f.shut(&g, a, now) || a.InFlight > 0 && f.full(&g, a, now)) {
			break
		}
		if !f.grant(&g, a, now) {
			break
		}
	}
	if len(g.Slots) > 0 {
		f.saw(a.Process, now)
	}
	g.State = f.state()
	return g, nil
}

func (s *scope) find(id uint64) int {
	return slices.IndexFunc(s.out, func(t turn) bool { return t.id == id })
}

func (f *Vendor) shut(g *gatestore.Grant, a gatestore.Ask, now time.Duration) bool {
	for i, d := range a.Draws {
		switch s := f.key(d.Key); {
		case now < s.till:
			g.Again, g.Draw, g.Held, g.Generation = s.till-now, i, true, s.gen
			return true
		case a.Mode == gatestore.Again && s.gen != d.Generation:
			g.Again, g.Draw = time.Microsecond, i
			return true
		case s.room > 0 && (a.Mode == gatestore.Again && s.find(a.ID) < 0 || a.Mode == gatestore.Pass && len(s.out) >= s.room):
			g.Again, g.Poll = time.Millisecond, true
			if n := len(s.out); n > 0 {
				g.Again = min(poll(now-s.out[n-1].end+10*time.Second), max(s.out[0].end-now, time.Millisecond))
			}
			return true
		}
	}
	return false
}

func (f *Vendor) full(g *gatestore.Grant, a gatestore.Ask, now time.Duration) bool {
	if a.Mode == gatestore.Again {
		if _, ok := f.places[a.ID]; ok {
			return false
		}
		g.Again, g.Poll = time.Microsecond, true
		return true
	}
	var mine *waiter
	if i := slices.IndexFunc(f.wait, func(w *waiter) bool { return w.name == a.Process }); i >= 0 {
		mine = f.wait[i]
	}
	used := len(f.places)
	for _, w := range f.wait {
		if w != mine && (mine == nil || w.since < mine.since) {
			used++
		}
	}
	if used < f.lim {
		return false
	}
	if mine == nil {
		mine = &waiter{a.Process, now, now}
		f.wait = append(f.wait, mine)
	}
	mine.last = now
	g.Again, g.Poll = poll(now-f.freed), true
	for _, end := range f.places {
		g.Again = max(time.Millisecond, min(g.Again, end-now))
	}
	return true
}

func (f *Vendor) grant(g *gatestore.Grant, a gatestore.Ask, now time.Duration) bool {
	at, last := now, 0
	if a.Late {
		for i, d := range a.Draws {
			s := f.key(d.Key)
			if t := max(s.pace, s.tail-min(d.Spacing, 500*time.Millisecond)) - d.Lead; d.Spacing > 0 && t > at {
				at, last = t, i
			}
		}
		if at > now+5*time.Millisecond {
			g.Again, g.Draw = at-now, last
			return false
		}
		at = now
	}
	for _, d := range a.Draws {
		if d.Spacing > 0 && !a.Late {
			at = now + a.RoundTrip
		}
	}
	least := at
	for i, d := range a.Draws {
		s := f.key(d.Key)
		if a.Mode == gatestore.Reserve {
			at = max(at, s.till)
		}
		if d.Spacing > 0 && !a.Late && s.tail-d.Lead > at {
			at, last = s.tail-d.Lead, i
		}
	}
	if a.Mode != gatestore.Again && at > now+a.Ahead {
		g.Again, g.Draw = at-now, last
		return false
	}
	slot := gatestore.Slot{ID: a.ID, At: at - now}
	if a.Mode != gatestore.Again {
		f.seq++
		slot.ID = f.seq
	}
	for _, d := range a.Draws {
		s := f.key(d.Key)
		taken := d.Spacing > 0 && !a.Late && (a.Mode != gatestore.Reserve || at-max(least, s.till, s.tail-d.Lead) < 12500*time.Microsecond)
		if a.Late && d.Spacing > 0 {
			s.changed = true
			s.pace = max(s.pace, now-12500*time.Microsecond) + d.Spacing
		}
		if taken {
			s.changed = true
			s.tail = max(s.tail, at) + d.Spacing
		}
		if s.room > 0 && a.Mode != gatestore.Reserve {
			if slot.Turn = true; a.Mode == gatestore.Pass {
				slot.Probe = slot.Probe || s.room == 1
				s.changed = true
				s.out = append(s.out, turn{slot.ID, now + 10*time.Second})
			}
		}
		slot.Generations, slot.Taken = append(slot.Generations, s.gen), append(slot.Taken, taken)
	}
	if a.InFlight > 0 && a.Mode != gatestore.Reserve {
		f.places[slot.ID] = now + 10*time.Second
		if a.Mode == gatestore.Pass {
			f.wait = slices.DeleteFunc(f.wait, func(w *waiter) bool { return w.name == a.Process })
		}
	}
	g.Slots = append(g.Slots, slot)
	return true
}

// End is for a gate.
func (f *Process) End(_ context.Context, ends []gatestore.End) (state gatestore.State, err error) {
	var keys []gatestore.Key
	for _, e := range ends {
		keys = append(keys, e.Keys...)
	}
	now, done, err := f.begin("end", keys...)
	if err != nil {
		return state, err
	}
	defer done()
	for _, e := range ends {
		fresh := true
		for i, k := range e.Keys {
			s := f.key(k)
			fresh = fresh && s.gen == e.Generations[i]
			if at := s.find(e.ID); e.Turn && at >= 0 {
				s.changed = true
				if s.out = slices.Delete(s.out, at, at+1); e.Success {
					s.room++
				}
			}
		}
		if _, ok := f.places[e.ID]; e.Place && ok {
			f.freed = now
			if delete(f.places, e.ID); e.Success && fresh {
				f.grow()
			}
		}
	}
	return f.state(), nil
}

func (f *Vendor) grow() {
	rounds, step := 16, 1
	if f.soon {
		rounds, step = 1, max(1, f.lim/16)
	}
	if f.won++; f.won >= rounds*f.lim && f.lim < f.most {
		f.lim, f.won = min(f.most, f.lim+step), 0
	}
}

// Hold is for a gate.
func (f *Process) Hold(_ context.Context, holds []gatestore.Hold) ([]gatestore.Hold, error) {
	var keys []gatestore.Key
	for _, h := range holds {
		keys = append(keys, h.Key)
	}
	now, done, err := f.begin("hold", keys...)
	if err != nil {
		return nil, err
	}
	defer done()
	holds = slices.Clone(holds)
	for i, h := range holds {
		s, till := f.key(h.Key), now+h.For
		force := now < s.till
		if int64(h.Generation) < 0 || s.gen == 0 || h.Generation == s.gen || force && h.Generation == s.prev {
			if !force {
				s.prev, s.gen, s.till, s.room, s.out = s.gen, max(s.gen+1, uint64(now/time.Microsecond)), till, 1, nil
				if h.Halve && now > f.resumed {
					f.soon = now-f.resumed >= 10*time.Second || len(f.places) <= f.lim/2
					if f.lim > 0 {
						f.lim, f.won = max(1, f.lim/2), 0
					}
					f.resumed = till
				}
			}
			if till >= s.till {
				s.changed = true
				s.till, s.over = till, till+10*time.Second
			}
		}
		holds[i].Generation, holds[i].For = s.gen, max(0, s.till-now)
	}
	return holds, nil
}

// Resume is for a gate.
func (f *Process) Resume(_ context.Context, keys []gatestore.Key) error {
	now, done, err := f.begin("resume", keys...)
	if err != nil {
		return err
	}
	defer done()
	for _, k := range keys {
		if s := f.key(k); now < s.till {
			s.changed = true
			s.till, s.over, f.resumed = now, now+10*time.Second, now
		}
	}
	return nil
}

// Renew is for a gate.
func (f *Process) Renew(_ context.Context, process string, ids []uint64) (state gatestore.State, err error) {
	now, done, err := f.begin("renew")
	if err != nil {
		return state, err
	}
	defer done()
	f.saw(process, now)
	for _, id := range ids {
		if _, ok := f.places[id]; ok {
			f.places[id] = now + 10*time.Second
		}
	}
	return f.state(), nil
}

// Leave is for a gate.
func (f *Process) Leave(_ context.Context, process string) error {
	_, done, err := f.begin("leave")
	if err != nil {
		return err
	}
	defer done()
	delete(f.procs, process)
	return nil
}

// A Process is what one process has of a vendor.
type Process struct {
	*Vendor
	name int
	dead atomic.Bool
}

// Process returns the store of a process.
func (f *Vendor) Process(name int) *Process { return &Process{Vendor: f, name: name} }

// OpenGate is for a gate.
func (f *Process) OpenGate(string) (gatestore.Table, error) { return f, nil }

// Cut has nothing of the process arrive any more, or again.
func (f *Process) Cut(off bool) { f.dead.Store(off) }
