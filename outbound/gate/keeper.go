package gate

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/registry"
)

// kick wakes the goroutine for those requests to the Store that no call waits for. The first time, it starts that goroutine.
func (g *Gate) kick() {
	if g.stopped == nil && !g.over {
		g.stopped, g.renewed = make(chan struct{}), g.now
		go g.keep()
	}
	select {
	case g.shared.kick <- struct{}{}:
	default:
	}
}

// keep sends holds first and then ends, and renews the leases, until the gate is closed.
func (g *Gate) keep() {
	defer close(g.stopped)
	timer := time.NewTimer(renewEvery)
	defer timer.Stop()
	var next time.Duration
	for over := false; !over; timer.Reset(next) {
		select {
		case <-g.shared.kick:
		case <-timer.C:
		}
		next, over = g.send()
	}
}

// A report is a hold to be sent to the Store.
type report struct {
	*scope

	until time.Time
	seen  uint64 // the generation in the Store when the attempt was admitted
	halve bool
	busy  bool // nothing is held; until then, it is not sent again
}

// send sends what is due, and returns how long to wait before the next look, and whether the gate is closed and nothing is left. While the
// Store is unavailable, it only checks whether it is back.
func (g *Gate) send() (next time.Duration, over bool) {
	unlock := g.lock()
	over = g.over && !g.out
	r, begun, holds := gatestore.Report{Process: g.process, Leave: over}, g.now, []report(nil)
	if next = renewEvery; g.failed != nil {
		next = retryEvery
	}
	idle := len(g.calls) == 0 && g.failed == nil && !over
	due := g.now.Sub(g.renewed) >= next && (!idle || g.state.InFlight > g.flying) // calls of others can have ended
	g.reports = slices.DeleteFunc(g.reports, func(h report) bool { return !h.until.After(begun) })
	g.untried = g.untried && len(g.reports) > 0
	if g.failed == nil {
		n := min(len(g.reports), maxEnds)
		r.Ends = slices.Clone(g.ends[:min(len(g.ends), maxEnds)])
		holds, g.reports = slices.Clone(g.reports[:n]), slices.Delete(g.reports, 0, n)
	}
	for _, h := range holds {
		r.Holds = append(r.Holds, gatestore.Hold{Key: h.Key, For: h.until.Sub(begun), Generation: h.seen, Halve: h.halve, Busy: h.busy})
	}
	if due {
		if g.renewed = begun; idle {
			r.Process = "" // the shares are for the others
		}
		for c := range g.calls {
			if t := c.turn; t != nil && t.flying && t.leased && (!t.Probe || !t.Turn) { // a probe loses its place with its lease
				r.Renew = append(r.Renew, t.ID)
			}
		}
	}
	unlock()
	if !over && !due && len(r.Holds)+len(r.Ends) == 0 {
		return next, false
	}
	state, inForce, err := g.table.Report(g.ctx, r)
	defer g.lock()()
	g.untried = len(g.reports) > 0
	if !g.heard(state, err) { // repeating a report changes nothing, but a slot must be given back or settled only once
		g.reports = append(holds, g.reports...)
		for i := range r.Ends {
			clear(g.ends[i].Of.Marks)
		}
		return retryEvery, over
	}
	if r.Process != "" {
		g.proven = g.now.Add(leaseTime)
	}
	for i, h := range holds {
		switch is := inForce[i]; {
		case is.For > 0:
			g.learn(h.scope, g.now.Add(is.For))
		case h.hold != nil && h.hold.until.Equal(h.until): // the Store knows that this hold is over
			g.resume(h.scope)
		}
	}
	g.ends, g.urgent = slices.Delete(g.ends, 0, len(r.Ends)), max(0, g.urgent-len(r.Ends))
	for _, e := range r.Ends {
		for _, d := range e.Draws {
			if s := g.scopes[d.Key]; s != nil && (s.refused[interactive].polled || s.refused[background].polled || e.Settled != nil) {
				s.refused = [classes]refusal{}
				g.wake(s, time.Time{})
			}
		}
	}
	if len(g.reports)+len(g.ends) > 0 {
		g.kick()
		return renewEvery, false
	}
	return renewEvery, over
}

// heard notes an answer of the Store, or its error. It reports whether there was an answer.
func (g *Gate) heard(state gatestore.State, err error) bool {
	was := g.failed
	if g.failed = err; err != nil {
		g.announce(g.ctx, registry.Event{Text: "gate store failed", Warn: true, Outage: true, Attrs: []slog.Attr{slog.Any("err", err)}})
		g.stats.storeErrors++
		if was == nil {
			g.since = g.now
			g.wakeAll()
			g.kick()
		}
		for c := range g.calls {
			if c.queue != nil && c.asks && g.byStore() {
				g.grant(c, g.storeError(c.limited(g.now, "")))
			}
		}
		return false
	}
	if state.Processes > 0 {
		g.state = state
	}
	if was != nil {
		g.announce(g.ctx, registry.Event{Text: "gate store recovered", Outage: true})
		g.wakeAll()
	}
	return true
}

// wakeAll has all calls checked again, under the limits that are in force now.
func (g *Gate) wakeAll() {
	for _, s := range g.scopes {
		s.change(g.share(s.Key), g.now)
		s.refused = [classes]refusal{}
		g.wake(s, time.Time{})
	}
}

// storeError returns the error of a call that has waited for the Store.
func (g *Gate) storeError(cause error) error {
	return fmt.Errorf("%w: %w: %w", ErrStore, g.failed, cause)
}
