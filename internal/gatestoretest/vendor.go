// Package gatestoretest has a store for gates in memory, which does what that in Redis does.
package gatestoretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

const (
	probe, lease, seen = 10 * time.Second, 10 * time.Second, 10 * time.Second
	noted              = 700 * time.Millisecond // longer than the longest poll
	shelf              = 12500 * time.Microsecond
)

// A Vendor is what the processes share of one vendor.
type Vendor struct {
	half  time.Duration // of a round trip
	clock func() time.Duration
	down  atomic.Bool

	mu   sync.Mutex
	log  []string // the operations
	keys map[gatestore.Key]*value
}

// A value is what the script keeps under one key, with its names.
type value struct {
	gen, prev                          uint64
	till, over, tail, unit, last, pace time.Duration
	room                               int
	out                                []until
	spare                              []slot
	dirty, stored                      bool

	// of the vendor
	seq                 uint64
	places              map[uint64]time.Duration
	procs               map[string]time.Duration
	wait                []*waiter
	freed, resumed, far time.Duration
	ended               uint64
	lim, most, won      int
	soon                bool
}

type (
	until struct {
		id  uint64
		end time.Duration
	}
	slot   struct{ at, charge time.Duration }
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
	return &Vendor{half: trip / 2, clock: clock, keys: map[gatestore.Key]*value{}}
}

// Fail makes the store unavailable, or available again.
func (f *Vendor) Fail(down bool) { f.down.Store(down) }

// Log returns the operations so far, each as "process: operation".
func (f *Vendor) Log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
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

var errDown = errors.New("connection refused")

func keysOf(draws []gatestore.Draw) (keys []gatestore.Key) {
	for _, d := range draws {
		keys = append(keys, d.Key)
	}
	return keys
}

// A script is one run of it.
type script struct {
	*Vendor
	now time.Duration
	v   *value // of the vendor
	of  map[gatestore.Key]*value
}

// run is the way to the store, what it does, and the way back.
func (f *Process) run(ops []string, keys []gatestore.Key, do func(s *script)) (state gatestore.State, err error) {
	time.Sleep(f.half)
	if f.down.Load() || f.dead.Load() {
		return state, errDown
	}
	f.mu.Lock()
	for _, op := range ops {
		f.log = append(f.log, fmt.Sprint(f.name, ": ", op))
	}
	s := &script{Vendor: f.Vendor, now: f.clock(), of: map[gatestore.Key]*value{}}
	s.v = s.key(gatestore.Key{Vendor: true})
	for _, k := range keys {
		s.key(k)
	}
	maps.DeleteFunc(s.v.places, func(_ uint64, end time.Duration) bool { return end <= s.now })
	maps.DeleteFunc(s.v.procs, func(_ string, at time.Duration) bool { return at+seen <= s.now })
	s.v.wait = slices.DeleteFunc(s.v.wait, func(w *waiter) bool { return w.last+noted <= s.now })
	do(s)
	state = gatestore.State{Processes: len(s.v.procs), InFlight: len(s.v.places), MaxInFlight: s.v.lim}
	for k, v := range s.of {
		if v.dirty {
			v.dirty, v.stored = false, v.end() > s.now
		}
		if !v.stored {
			delete(f.keys, k)
		}
	}
	f.mu.Unlock()
	time.Sleep(f.half)
	return state, nil
}

// key returns a value. The first time, it gives up turns that are out for too long, and ends a ramp that is over.
func (s *script) key(k gatestore.Key) *value {
	v := s.of[k]
	if v != nil {
		return v
	}
	if v = s.keys[k]; v == nil {
		v = &value{freed: s.now, places: map[uint64]time.Duration{}, procs: map[string]time.Duration{}}
		s.keys[k] = v
	}
	if s.of[k] = v; s.v == nil {
		s.v = v
	}
	if s.now < v.till && v.gen <= s.v.ended {
		v.till, v.over, v.dirty = s.now, s.now+probe, true
	}
	if v.room == 0 || s.now < v.till {
		return v
	}
	for len(v.out) > 0 && v.out[0].end <= s.now {
		if _, ok := s.v.places[v.out[0].id]; ok {
			delete(s.v.places, v.out[0].id)
			s.v.freed = s.now
		}
		v.dirty, s.v.dirty = true, true
		if v.out = v.out[1:]; v.room == 1 {
			v.over = s.now + probe
		}
	}
	if v.room >= 64 || s.now >= v.over && (v.room > 1 || len(v.out) == 0) {
		v.room, v.out = 0, nil
	}
	return v
}

// end returns when nothing of a value is left.
func (v *value) end() time.Duration {
	last := max(v.till, v.tail, v.pace, v.far)
	if v.room > 0 {
		last = max(last, v.over)
	}
	for _, t := range v.out {
		last = max(last, t.end+probe)
	}
	for _, t := range v.places {
		last = max(last, t)
	}
	for _, t := range v.procs {
		last = max(last, t+seen)
	}
	for _, w := range v.wait {
		last = max(last, w.last+noted)
	}
	return last
}

func (s *script) saw(process string) {
	if at, ok := s.v.procs[process]; !ok || at+time.Second <= s.now {
		s.v.procs[process], s.v.dirty = s.now, true
	}
}

func (s *script) poll(since time.Duration) time.Duration {
	return min(max((s.now-since)/2, 50*time.Millisecond), 500*time.Millisecond)
}

func (v *value) find(id uint64) int {
	return slices.IndexFunc(v.out, func(t until) bool { return t.id == id })
}

// Pass is for a gate.
func (f *Process) Pass(_ context.Context, ask gatestore.Ask) (g gatestore.Grant, err error) {
	var keys []gatestore.Key
	for _, of := range ask.Groups {
		keys = append(keys, keysOf(of.Draws)...)
	}
	g.State, err = f.run([]string{"pass"}, keys, func(s *script) {
		if v := s.v; ask.InFlight != v.most {
			if v.lim == v.most || v.lim > ask.InFlight {
				v.lim = ask.InFlight
			}
			v.most = ask.InFlight
		}
		no, passed := map[gatestore.Key]gatestore.Answer{}, false
		for _, of := range ask.Groups {
			a, refused := gatestore.Answer{}, false
			for _, d := range of.Draws {
				s.recount(d)
			}
			for len(a.Slots) < of.Calls && !refused {
				refused = ask.Mode != gatestore.Reserve && (s.shut(&a, ask.Mode, of, no) || ask.InFlight > 0 && s.full(&a, ask, of.ID)) || !s.grant(&a, ask, of)
			}
			if refused {
				no[of.Draws[a.Draw].Key] = gatestore.Answer{Again: a.Again, Poll: a.Poll, Held: a.Held}
			}
			passed = passed || len(a.Slots) > 0
			g.Answers = append(g.Answers, a)
		}
		if passed {
			s.saw(ask.Process)
		}
	})
	return g, err
}

func (s *script) recount(d gatestore.Draw) {
	v := s.key(d.Key)
	if d.Spacing == 0 || v.unit == d.Unit {
		return
	}
	if base := max(s.now, v.last); v.unit > 0 && v.tail > base {
		left := math.Ceil(us(v.tail-base) / us(v.unit) * us(d.Unit))
		v.tail = max(base+time.Duration(left*1e3), v.last+d.Unit)
	}
	v.unit, v.spare, v.pace, v.dirty = d.Unit, nil, 0, true
}

func us(d time.Duration) float64 { return float64(d / time.Microsecond) }

func (s *script) shut(a *gatestore.Answer, mode gatestore.Mode, of gatestore.Group, no map[gatestore.Key]gatestore.Answer) bool {
	for i, d := range of.Draws {
		v := s.key(d.Key)
		n, known := no[d.Key]
		switch a.Draw = i; {
		case known && (n.Held || n.Poll || d.Spacing > 0):
			a.Again, a.Poll, a.Held = n.Again, n.Poll, n.Held
		case s.now < v.till:
			a.Again, a.Held = v.till-s.now, true
		case mode == gatestore.Again && v.gen != d.Generation:
			a.Again = time.Microsecond
		case v.room > 0 && (mode == gatestore.Again && v.find(of.ID) < 0 || mode == gatestore.Pass && len(v.out) >= v.room):
			a.Again, a.Poll = time.Millisecond, true
			if n := len(v.out); n > 0 {
				a.Again = min(s.poll(v.out[n-1].end-probe), max(v.out[0].end-s.now, time.Millisecond))
			}
		default:
			continue
		}
		return true
	}
	a.Draw = 0
	return false
}

func (s *script) full(a *gatestore.Answer, ask gatestore.Ask, own uint64) bool {
	v, mine := s.v, (*waiter)(nil)
	if _, has := v.places[own]; has {
		return false
	} else if ask.Mode == gatestore.Again {
		a.Again, a.Poll = time.Microsecond, true
		return true
	}
	if i := slices.IndexFunc(v.wait, func(w *waiter) bool { return w.name == ask.Process }); i >= 0 {
		mine = v.wait[i]
	}
	used := len(v.places)
	for _, w := range v.wait {
		if w != mine && (mine == nil || w.since < mine.since) {
			used++
		}
	}
	if used < v.lim {
		return false
	}
	if mine == nil {
		mine = &waiter{ask.Process, s.now, s.now}
		v.wait = append(v.wait, mine)
	}
	mine.last, v.dirty = s.now, true
	a.Again, a.Poll = s.poll(v.freed), true
	for _, end := range v.places {
		a.Again = max(time.Millisecond, min(a.Again, end-s.now))
	}
	return true
}

// earliest returns the first slot from a time on, and the index of the spare one that it is, or -1.
func (v *value) earliest(d gatestore.Draw, from time.Duration) (at time.Duration, spare int) {
	at, spare = max(from, v.tail-d.Lead), -1
	for i, s := range v.spare {
		if s.charge >= d.Spacing && s.at >= from && s.at < at {
			at, spare = s.at, i
		}
	}
	return at, spare
}

// slot returns the slot of a call, what decides it, and the farthest one.
func (s *script) slot(ask gatestore.Ask, of gatestore.Group) (at time.Duration, last int, most time.Duration) {
	at = s.now
	for i, d := range of.Draws {
		if v := s.key(d.Key); d.Spacing > 0 && ask.Late {
			if t := max(v.pace, v.tail-min(d.Spacing, 500*time.Millisecond)) - d.Lead; t > at {
				at, last = t, i
			}
		} else if d.Spacing > 0 {
			at = max(at, s.now+ask.RoundTrip)
		}
	}
	switch most = s.now + ask.Ahead; {
	case ask.Late && at <= s.now+5*time.Millisecond:
		return s.now, last, s.now
	case ask.Late:
		return at, last, s.now
	case ask.Mode == gatestore.Again:
		most = 1<<63 - 1
	}
	for again := true; again; {
		again = false
		for i, d := range of.Draws {
			v, t := s.key(d.Key), at
			if ask.Mode == gatestore.Reserve {
				t = max(t, v.till)
			}
			if d.Spacing > 0 {
				t, _ = v.earliest(d, t)
			}
			if t > at {
				at, last, again = t, i, true
			}
		}
	}
	return at, last, most
}

func (s *script) grant(a *gatestore.Answer, ask gatestore.Ask, of gatestore.Group) bool {
	at, last, most := s.slot(ask, of)
	if at > most {
		a.Again, a.Draw = at-s.now, last
		return false
	}
	got, reserve := gatestore.Slot{ID: of.ID, At: at - s.now, Time: uint64(at / time.Microsecond)}, ask.Mode == gatestore.Reserve
	if ask.Mode != gatestore.Again {
		s.v.seq = max(s.v.seq+1, uint64(s.now/time.Microsecond))
		got.ID = s.v.seq
	}
	for _, d := range of.Draws {
		v, tail := s.key(d.Key), uint64(0)
		_, spare := v.earliest(d, at)
		switch {
		case d.Spacing == 0:
		case ask.Late:
			v.pace, v.dirty = max(v.pace, s.now-shelf)+d.Spacing, true
		case spare >= 0:
			v.spare, tail, v.dirty = slices.Delete(v.spare, spare, spare+1), 1, true
		case !reserve || at-max(s.now+ask.RoundTrip, v.till, v.tail-d.Lead) < shelf:
			v.tail, v.last, v.dirty = max(v.tail, at)+d.Spacing, max(v.last, at), true
			tail = uint64(v.tail / time.Microsecond)
		}
		if v.room > 0 && !reserve {
			if got.Turn = true; ask.Mode == gatestore.Pass {
				got.Probe = got.Probe || v.room == 1
				v.dirty, s.v.dirty = true, true
				v.out = append(v.out, until{got.ID, s.now + probe})
			}
		}
		got.Generations, got.Tails = append(got.Generations, v.gen), append(got.Tails, tail)
	}
	if ask.InFlight > 0 && !reserve {
		s.v.places[got.ID], s.v.dirty = s.now+lease, true
		if ask.Mode == gatestore.Pass {
			s.v.wait = slices.DeleteFunc(s.v.wait, func(w *waiter) bool { return w.name == ask.Process })
		}
	}
	a.Slots = append(a.Slots, got)
	return true
}

// Report is for a gate.
func (f *Process) Report(_ context.Context, r gatestore.Report) (gatestore.State, []gatestore.Hold, error) {
	var keys []gatestore.Key
	var ops []string
	for _, h := range r.Holds {
		keys, ops = append(keys, h.Key), []string{"hold"}
	}
	for _, e := range r.Ends {
		keys = append(keys, keysOf(e.Draws[:len(e.Of.Generations)])...)
	}
	if len(r.Ends) > 0 {
		ops = append(ops, "end")
	} else if len(ops) == 0 {
		ops = []string{"renew"}
	}
	holds := slices.Clone(r.Holds)
	state, err := f.run(ops, keys, func(s *script) {
		for i, h := range holds {
			v := s.key(h.Key)
			s.hold(v, h)
			holds[i].For = max(0, v.till-s.now)
		}
		for _, e := range r.Ends {
			s.end(e)
		}
		for _, id := range r.Renew {
			if _, ok := s.v.places[id]; ok {
				s.v.places[id], s.v.dirty = s.now+lease, true
			}
		}
		if r.Leave {
			delete(s.v.procs, r.Process)
			s.v.dirty = true
		} else {
			s.saw(r.Process)
		}
	})
	return state, holds, err
}

func (s *script) end(e gatestore.End) {
	fresh := true
	for i, gen := range e.Of.Generations {
		v := s.key(e.Draws[i].Key)
		fresh = fresh && v.gen == gen
		if at := v.find(e.Of.ID); e.Turn && at >= 0 {
			v.dirty = true
			if v.out = slices.Delete(v.out, at, at+1); e.Success {
				v.room++
			}
		}
		if i < len(e.Of.Tails) {
			s.back(v, e.Of.Tails[i], slot{time.Duration(e.Of.Time) * time.Microsecond, e.Draws[i].Spacing})
		}
	}
	if _, ok := s.v.places[e.Of.ID]; e.Place && ok {
		s.v.freed, s.v.dirty = s.now, true
		if delete(s.v.places, e.Of.ID); e.Success && fresh {
			s.v.grow()
		}
	}
}

// back takes a slot back.
func (s *script) back(v *value, tail uint64, of slot) {
	switch last := tail == uint64(v.tail/time.Microsecond); {
	case tail == 0 || of.at <= s.now && !last:
		return
	case last:
		v.tail -= of.charge
	case len(v.spare) < 64:
		v.spare = append(v.spare, of)
	}
	v.spare = slices.DeleteFunc(v.spare, func(o slot) bool { return o.at <= s.now })
	v.dirty = true
}

func (v *value) grow() {
	rounds, step := 16, 1
	if v.soon {
		rounds, step = 1, max(1, v.lim/16)
	}
	if v.won++; v.won >= rounds*v.lim && v.lim < v.most {
		v.lim, v.won = min(v.most, v.lim+step), 0
	}
}

func (s *script) hold(v *value, h gatestore.Hold) {
	till, force := s.now+h.For, s.now < v.till
	if int64(h.Generation) >= 0 && h.Generation < v.gen && (!force || h.Generation < v.prev) {
		return
	}
	if !force {
		v.prev, v.gen, v.till, v.room, v.out = v.gen, max(v.gen+1, uint64(s.now/time.Microsecond), s.v.ended+1), till, 1, nil
		s.v.seq = max(s.v.seq, v.gen)
		if h.Halve && s.now > s.v.resumed {
			s.halve(till)
		}
	}
	if till >= v.till {
		v.till, v.over, v.dirty = till, till+probe, true
		s.v.far, s.v.dirty = max(s.v.far, v.over), true
	}
}

func (s *script) halve(till time.Duration) {
	v := s.v
	v.soon = s.now-v.resumed >= probe || len(v.places) <= v.lim/2
	if v.lim > 0 {
		v.lim, v.won = max(1, v.lim/2), 0
	}
	v.resumed = till
}

// Resume is for a gate.
func (f *Process) Resume(_ context.Context, keys []gatestore.Key) error {
	_, err := f.run([]string{"resume"}, keys, func(s *script) {
		if len(keys) == 0 {
			s.v.ended, s.v.resumed, s.v.dirty = max(uint64(s.now/time.Microsecond), s.v.seq), s.now, true
			keys = []gatestore.Key{{Vendor: true}}
		}
		for _, k := range keys {
			if v := s.key(k); s.now < v.till {
				v.till, v.over, v.dirty = s.now, s.now+probe, true
				s.v.resumed, s.v.dirty = s.now, true
			}
		}
	})
	return err
}
