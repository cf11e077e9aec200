package gate

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/registry"
)

// start starts the goroutine that sends what no call waits for.
func (g *Gate) start() {
	if sh := g.shared; sh.stopped == nil && !sh.over {
		sh.stopped = make(chan struct{})
		go g.keep()
	}
}

// kick has it look.
func (g *Gate) kick() {
	g.start()
	select {
	case g.shared.kick <- struct{}{}:
	default:
	}
}

// keep sends holds, then ends, and renews the leases, until the gate is closed.
func (g *Gate) keep() {
	sh := g.shared
	defer close(sh.stopped)
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	renewed := time.Now()
	for over := false; !over; {
		select {
		case <-sh.kick:
		case <-timer.C:
		case <-sh.stop:
			over = true
		}
		g.send()
		unlock := g.lock()
		ids, active, failed, left := g.leases(), len(g.calls) > 0, sh.failed != nil, len(sh.reports)+len(sh.ends) > 0
		unlock()
		switch since := time.Since(renewed); {
		case over:
			_ = sh.table.Leave(sh.ctx, sh.process) // or its lease ends
		case failed && since >= retryEvery, active && since >= renewEvery:
			renewed = time.Now()
			state, err := sh.table.Renew(sh.ctx, sh.process, ids)
			unlock = g.lock()
			g.heard(state, renewed, err)
			unlock()
		}
		if timer.Reset(renewEvery); failed || left {
			timer.Reset(retryEvery)
		}
	}
}

// leases returns the ids of the places in use.
func (g *Gate) leases() (ids []uint64) {
	for t := range g.flights {
		ids = append(ids, t.ID)
	}
	return ids
}

// send sends holds and ends until there are none, or the Store is unavailable.
func (g *Gate) send() {
	for more := true; more; {
		more = g.sendHolds() || g.sendEnds()
	}
}

// A report is a hold for the Store.
type report struct {
	*scope

	until time.Time
	seen  uint64 // the generation of the Store of the attempt
	halve bool
}

func (g *Gate) sendHolds() bool {
	sh := g.shared
	unlock := g.lock()
	reports, begun := sh.reports, g.now
	sh.reports = nil
	unlock()
	if len(reports) == 0 {
		return false
	}
	holds := make([]gatestore.Hold, len(reports))
	for i, r := range reports {
		holds[i] = gatestore.Hold{Key: r.shared(), For: max(time.Microsecond, r.until.Sub(begun)), Generation: r.seen, Halve: r.halve}
	}
	inForce, err := sh.table.Hold(sh.ctx, holds)
	defer g.lock()()
	sh.untried = len(sh.reports) > 0
	if !g.heard(gatestore.State{}, begun, err) {
		reports = slices.DeleteFunc(reports, func(r report) bool { return !r.until.After(g.now) })
		sh.reports = append(reports, sh.reports...)
		return false
	}
	for i, r := range reports {
		switch h := inForce[i]; {
		case h.For > 0:
			r.stored = h.Generation
			g.extend(r.scope, g.now.Add(h.For))
		case r.hold != nil && r.hold.until.Equal(r.until): // it is about a hold that has been over
			g.resume(r.scope)
		}
	}
	return true
}

func (g *Gate) sendEnds() bool {
	sh := g.shared
	unlock := g.lock()
	ends, begun := slices.Clone(sh.ends[:min(len(sh.ends), maxEnds)]), g.now
	unlock()
	if len(ends) == 0 {
		return false
	}
	state, err := sh.table.End(sh.ctx, ends)
	defer g.lock()()
	if !g.heard(state, begun, err) { // they are repeated: an end that is known changes nothing, but a slot is given back once
		for i := range ends {
			sh.ends[i].Of.Tails = nil
		}
		return false
	}
	sh.ends = slices.Delete(sh.ends, 0, len(ends))
	for _, e := range ends {
		for _, d := range e.Draws {
			if s := g.scopes[scopeID{d.Vendor, d.Limit, d.Key.Key}]; s != nil && s.polled {
				s.quiet, s.polled = time.Time{}, false
				g.wake(s, time.Time{})
			}
		}
	}
	return true
}

// heard notes an answer of the Store, or that there was none. It reports whether there was one.
func (g *Gate) heard(state gatestore.State, begun time.Time, err error) bool {
	sh, was := g.shared, g.failed
	if sh.failed = err; err != nil {
		g.events.Append(event{sh.ctx, registry.Event{
			Text: "gate store failed", Warn: true, Outage: true, Attrs: []slog.Attr{slog.Any("err", err)},
		}})
		sh.errors++
		if was == nil {
			sh.since = g.now
			g.wakeAll()
			g.kick()
		}
		for c := range g.calls {
			if c.queue != nil && c.asks && g.byStore() {
				g.unqueue(c)
				c.grant(g.storeError(c.limited(g.now, "")))
			}
		}
		return false
	}
	sh.proven = g.now.Add(leaseTime)
	if took := g.now.Sub(begun); sh.trip == 0 || took < sh.trip {
		sh.trip = took
	} else {
		sh.trip += (took - sh.trip) / 16
	}
	if state.Processes > 0 {
		sh.state = state
	}
	if was != nil {
		g.events.Append(event{sh.ctx, registry.Event{Text: "gate store recovered", Outage: true}})
		g.wakeAll()
	}
	return true
}

// wakeAll has all calls looked at, under the limits that are in force now.
func (g *Gate) wakeAll() {
	for _, s := range g.scopes {
		if !s.vendor {
			s.limit = g.share(s.name)
			s.tail = later(s.tail, g.floorOf(s.limit))
		}
		s.quiet = time.Time{}
		g.wake(s, time.Time{})
	}
}

// storeError returns the error of a call that has waited for the Store.
func (g *Gate) storeError(cause error) error {
	return fmt.Errorf("%w: %w: %w", ErrStore, g.failed, cause)
}
