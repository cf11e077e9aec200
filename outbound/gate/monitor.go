package gate

import (
	"log/slog"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// lock locks the gate; the result unlocks it. Right before it unlocks, it admits the calls that can be admitted now; after that, it
// delivers events.
func (g *Gate) lock() (unlock func()) {
	g.mu.Lock()
	g.now = time.Now()
	return g.unlock
}

// locked calls f with the gate locked.
func (g *Gate) locked(f func()) {
	defer g.lock()()
	f()
}

func (g *Gate) release() {
	g.serve()
	g.mu.Unlock()
	g.events.Drain()
}

// serve admits calls, in their order, as long as everything that they need is available. A call that its own keys block is parked at the
// one that blocks it for longest. It blocks neither calls of other keys, nor those that need no slot of that key. A call that only waits
// for a place or a token blocks all calls behind it.
func (g *Gate) serve() {
	for len(g.wakes) > 0 && !g.wakes[0].wake.After(g.now) {
		g.wake(g.wakes[0], time.Time{})
	}
	for stop := false; !stop && g.ready.len() > 0; {
		c := g.ready.first()
		switch s, at := g.blocked(c); {
		case s != nil && c.asks && !g.byStore(): // the Store has failed meanwhile
			g.grant(c, c.limited(at, s.Limit))
		case s != nil:
			g.wake(s, at)
			g.move(c, &s.parked)
		case !g.roomy() || !g.token():
			stop = true
		case c.pool != nil && c.conn == nil && !c.pool.take(c):
			g.move(c, &c.pool.parked)
		case g.byStore():
			g.move(c, &g.asked)
		default:
			g.admit(c)
		}
	}
	g.settleToken()
	g.ask()
	g.arm()
}

// roomy reports whether there is a place for a call, if need be that of a probe without an answer, or whether the call can be added to the
// next request to the Store.
func (g *Gate) roomy() bool {
	switch {
	case g.byStore():
		most := maxAsk
		if g.settings().Limiter != nil {
			most = 1 // its tokens are taken one by one
		}
		return !g.out && !g.over && g.failed == nil && !g.untried && g.urgent == 0 && g.asked.len() < most
	case g.alone():
		return g.most == 0 || g.flying < min(g.limit, g.state.MaxInFlight)/max(1, g.state.Processes)
	}
	for g.limit > 0 && g.flying >= g.limit && len(g.probes) > 0 && g.now.Sub(g.probes[0].at) >= probeTime {
		g.land(g.probes[0])
		g.probes = g.probes[1:]
	}
	return g.limit == 0 || g.flying < g.limit
}

// blocked returns the scope that does not admit the call for longest, and when to look again; nil if there is none.
func (g *Gate) blocked(c *call) (s *scope, at time.Time) {
	at = g.now
	for _, cl := range c.claims {
		until, shut := g.shut(cl.scope)
		if !shut {
			until = later(g.admits(c, cl), g.quotaWait(c, cl))
		}
		if until.After(at) {
			s, at = cl.scope, until
		}
	}
	return s, at
}

// admits returns the time from which a scope without a hold can admit a call. It is zero or past if that is now.
func (g *Gate) admits(c *call, cl *claim) (at time.Time) {
	s, slotless := cl.scope, cl.old(g.now)
	switch {
	case slotless && s.wake.After(g.now) && s.parked.precedes(c):
		return s.wake
	case g.byStore() && (slotless || s.refused[c.class()].polled):
		return s.refused[c.class()].quiet
	case g.byStore():
		return at
	case slotless:
		return s.admission(cl.cost, g.now)
	}
	return cl.slot.at
}

// admit lets a call pass.
func (g *Gate) admit(c *call) {
	g.begin(c, &turn{})
	for _, cl := range c.claims {
		if cl.stored = unknown; cl.hold != nil {
			if cl.hold.out = append(cl.hold.out, c.turn); cl.hold.room == 1 && !c.turn.probes {
				c.turn.probes, g.probes = true, append(g.probes, c.turn)
			}
		}
		if cl.paced = cl.old(g.now) || cl.counts() && cl.slot.at.After(g.now); cl.paced { // it has no slot for now
			cl.admit(cl.cost, g.now)
		}
	}
}

// begin admits a call that waits.
func (g *Gate) begin(c *call, t *turn) {
	g.clock++
	t.at, t.claims, t.flying, c.turn, c.seen = g.now, c.claims, true, t, g.clock
	for _, cl := range t.claims {
		g.fly(cl, 1)
	}
	g.flying++
	if c.token = g.settings().Limiter != nil && g.credit > 0; c.token { // the Store may have been asked before there was a Limiter
		g.credit--
	}
	g.waits[c.class()].Observe(g.now.Sub(c.since))
	g.grant(c, nil)
}

// undo takes back the admission of a call that was not sent, and everything that it was granted with it.
func (g *Gate) undo(c *call) {
	shared := c.turn != nil && c.turn.granted != nil
	g.leaveRamp(c, false)
	g.land(c.turn)
	c.turn = nil
	for _, cl := range c.claims {
		switch {
		case cl.paced:
			cl.pace = cl.pace.Add(-span(cl.cost, cl.spacing))
		case !cl.paced && !shared && !cl.slot.at.IsZero(): // Reserve has raised it
			cl.pace = time.Time{}
		}
		if cl.paced = false; !shared { // otherwise it keeps its slots while they can still be used
			cl.put(cl.slot, g.now)
			cl.slot = slot{}
			g.wake(cl.scope, time.Time{})
		}
	}
	if c.token {
		c.token = false
		g.credit++
	}
	c.putConn()
}

// leaveRamp ends the turn of a call. After a success, also a late one, the ramp lets one more call in.
func (g *Gate) leaveRamp(c *call, success bool) {
	t := c.turn
	own := func(o *turn) bool { return o == t }
	if t != nil && t.probes {
		g.probes = slices.DeleteFunc(g.probes, own)
	}
	if t != nil && t.granted != nil && t.Turn {
		if t.Turn = false; t.Probe {
			g.renewed = time.Time{} // its lease goes on from now
		}
		if g.tell(t.granted, gatestore.End{Turn: true, Success: success}); success && t.Probe {
			g.emit(c, "calls are made again", c.claims[0].scope, "")
		}
	}
	for _, cl := range c.claims {
		s, fresh := cl.scope, success && cl.begun <= c.seen
		if fresh {
			s.refusals, s.pause = 0, 0
		}
		if s.hold == nil {
			continue
		}
		s.hold.out = slices.DeleteFunc(s.hold.out, own)
		if fresh && t != nil {
			if s.hold.room++; s.hold.room == 2 && t.granted == nil {
				g.emit(c, "calls are made again", s, "", slog.Time("held_until", s.hold.until))
			}
		}
		g.wake(s, time.Time{})
	}
}

// land frees the place of a turn.
func (g *Gate) land(t *turn) {
	if t != nil && t.flying {
		t.flying = false
		g.flying--
		for _, cl := range t.claims {
			g.fly(cl, -1)
		}
		if t.leased {
			g.tell(t.granted, gatestore.End{Place: true, Success: t.success})
		}
	}
}

// halve halves the number of calls that can be in flight. It grows back fast if that number is probably not the reason for the refusal,
// because the last such hold was long ago or few calls are in flight; otherwise slowly.
func (g *Gate) halve(until time.Time) {
	if g.limit > 0 {
		g.soon = g.now.Sub(g.resumed) >= probeTime || g.flying <= g.limit/2
		g.limit, g.won = max(1, g.limit/2), 0
	}
	g.resumed = until
}

// places returns how many calls are in flight, and how many can be; with a Store in all processes, as far as this one knows.
func (g *Gate) places() (used, most int) {
	used, most = g.flying, g.limit
	if g.shared != nil && g.byStore() && g.state.Processes > 0 {
		used, most = max(used, g.state.InFlight), min(g.most, g.state.MaxInFlight)
	}
	return used, most
}

// grow counts a success, after enough of which more calls can be in flight.
func (g *Gate) grow() {
	rounds, step := 16, 1
	if g.soon {
		rounds, step = 1, max(1, g.limit/16)
	}
	if g.won++; g.won >= rounds*g.limit && g.limit < g.most {
		g.limit, g.won = min(g.most, g.limit+step), 0
	}
}

// move moves a waiting call to another queue, or with nil out of all queues, and has those checked that can be next: the first ones of its
// scopes, and of its pool, whose free connection it does not use.
func (g *Gate) move(c *call, to *queue) {
	first := make([]*call, 0, 4) // that many without an allocation
	for _, cl := range c.claims {
		first = append(first, cl.parked.first())
	}
	if c.queue.remove(c); to != nil {
		to.add(c)
	} else if c.turn != nil { // it is admitted
		for q := range c.queues {
			q.passed = min(max(0, q.passed+c.passes()), overtakes)
		}
	}
	for i, cl := range c.claims {
		if next := cl.parked.first(); next != first[i] && (to == nil || g.shared != nil && to == &g.asked) { // the time was that of another call
			if cl.wake = (time.Time{}); next != nil {
				cl.wake = cl.refused[next.class()].quiet
			}
		}
		g.wake(cl.scope, cl.wake)
	}
	if c.pool != nil && c.conn == nil && to != &c.pool.parked {
		g.ripe(&c.pool.parked)
	}
}

// grant ends the wait of a call.
func (g *Gate) grant(c *call, err error) {
	g.move(c, nil)
	if c.err = err; c.granted != nil {
		close(c.granted)
	}
}

// wake sets the time at which the first parked call of a scope is checked; the zero time means now.
func (g *Gate) wake(s *scope, at time.Time) {
	if i := slices.Index(g.wakes, s); i >= 0 {
		g.wakes = slices.Delete(g.wakes, i, i+1)
	}
	if s.wake = at; at.After(g.now) {
		i, _ := slices.BinarySearchFunc(g.wakes, at, func(o *scope, at time.Time) int { return o.wake.Compare(at) })
		g.wakes = slices.Insert(g.wakes, i, s)
		return
	}
	g.ripe(&s.parked)
}

// ripe moves the first call of a queue to ready.
func (g *Gate) ripe(q *queue) {
	if c := q.first(); c != nil {
		q.remove(c)
		g.ready.add(c)
	}
}

// arm sets the timer for what comes first: the next token, the next time at which a key is to be checked, or the end of the place of a
// probe without an answer.
func (g *Gate) arm() {
	at := g.tokenAt
	if len(g.wakes) > 0 && (!at.After(g.now) || g.wakes[0].wake.Before(at)) {
		at = g.wakes[0].wake
	}
	if len(g.probes) > 0 {
		if lost := g.probes[0].at.Add(probeTime); lost.After(g.now) && (!at.After(g.now) || lost.Before(at)) {
			at = lost
		}
	}
	switch {
	case g.waiting == [classes]int{} || !at.After(g.now):
		if g.timer != nil {
			g.timer.Stop()
		}
	case g.timer == nil:
		g.timer = time.AfterFunc(at.Sub(g.now), func() { g.lock()() })
	default:
		g.timer.Reset(at.Sub(g.now))
	}
}
