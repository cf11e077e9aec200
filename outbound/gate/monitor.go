package gate

import (
	"log/slog"
	"time"
)

// serve admits the first calls for which everything is there, at once. A call that its own keys block is parked with the first of them,
// and does not block calls of other keys; one that only waits for a place or a token blocks all behind it.
func (g *Gate) serve(now time.Time) {
	for len(g.wakes) > 0 && !g.wakes[0].wake.After(now) {
		g.wake(g.wakes[0], time.Time{}, now)
	}
	for len(g.ready) > 0 {
		c := g.ready[0]
		if s, at := g.blocked(c, now); s != nil {
			g.wake(s, at, now)
			g.park(c, &s.parked, now)
			continue
		}
		if g.limit > 0 && g.flying >= g.limit || !g.token(now) {
			break
		}
		if c.pool != nil && c.conn == nil && !c.pool.take(c) {
			g.park(c, c.pool.waiting(), now)
			continue
		}
		g.admit(c, now)
	}
	g.settleToken(now)
	g.arm(now)
}

// blocked returns a scope that does not admit the call, and the time of the next attempt.
func (g *Gate) blocked(c *call, now time.Time) (s *scope, at time.Time) {
	shelf := g.settings().shelf
	for i := range c.claims {
		cl := &c.claims[i]
		s = cl.scope
		if at, ok := g.shut(s, now); ok {
			return s, at
		}
		if len(s.parked) > 0 && s.parked[0].seq < c.seq && s.wake.After(now) {
			return s, s.wake
		}
		if s.counts(cl.cost) && !cl.slot.fresh(now, shelf) {
			if at := s.usage.admission(s.limit, cl.cost, now, shelf); at.After(now) {
				return s, at
			}
		}
	}
	return nil, at
}

// admit lets a call pass.
func (g *Gate) admit(c *call, now time.Time) {
	shelf := g.settings().shelf
	g.unqueue(c, now)
	c.turn = &turn{at: now, flying: true}
	g.flying++
	for i := range c.claims {
		cl := &c.claims[i]
		s := cl.scope
		if cl.seen = s.gen; s.hold != nil {
			s.hold.out = append(s.hold.out, c.turn)
		}
		if cl.paced = s.counts(cl.cost) && !cl.slot.fresh(now, shelf); cl.paced {
			s.usage.admit(s.limit, cl.cost, now, shelf)
		}
	}
	c.token = g.useToken()
	g.waits.Observe(now.Sub(c.since))
	c.grant(nil)
}

// undo takes back the admission of a call that was not sent, with all that it has got.
func (g *Gate) undo(c *call, now time.Time) {
	g.leaveRamp(c, false, now)
	g.land(c.turn)
	for i := range c.claims {
		cl := &c.claims[i]
		if u := &cl.scope.usage; cl.paced && cl.scope.limit != nil {
			u.pace = u.pace.Add(-span(cl.cost, cl.scope.limit.spacing))
		}
		cl.paced = false
	}
	c.putSlots(now)
	if c.token {
		c.token = false
		g.credit++
	}
	c.turn = nil
	if c.pool != nil && !c.pinned {
		c.pool.put(c)
	}
}

// leaveRamp ends the turn of a call, which has succeeded or not.
func (g *Gate) leaveRamp(c *call, success bool, now time.Time) {
	for i := range c.claims {
		cl := &c.claims[i]
		s := cl.scope
		if success && s.gen == cl.seen {
			s.refusals, s.pause = 0, 0
		}
		h := s.hold
		if h == nil || c.turn == nil {
			continue
		}
		for j, t := range h.out {
			if t != c.turn {
				continue
			}
			h.out = append(h.out[:j], h.out[j+1:]...)
			if success {
				if h.room++; h.room == 2 {
					g.change(c.ctx, "calls are made again", s, slog.Time("held_until", h.until))
				}
			}
			break
		}
		g.wake(s, time.Time{}, now)
	}
}

// land frees the place of a turn.
func (g *Gate) land(t *turn) {
	if t != nil && t.flying {
		t.flying = false
		g.flying--
	}
}

// halve lowers the number of calls in flight. If they are hardly the reason of the refusal, since the vendor was content for long or few
// are in flight, it comes back soon, otherwise slowly.
func (g *Gate) halve(now, until time.Time) {
	if g.limit > 0 {
		g.soon = now.Sub(g.resumed) >= probeTime || g.flying <= g.limit/2
		g.limit, g.won = max(1, g.limit/2), 0
	}
	g.resumed = until
}

// grow counts a success.
func (g *Gate) grow() {
	rounds, step := 16, 1
	if g.soon {
		rounds, step = 1, max(1, g.limit/16)
	}
	if g.won++; g.won >= rounds*g.limit && g.limit < g.most {
		g.limit, g.won = min(g.most, g.limit+step), 0
	}
}

// queueUp adds a call to those that wait.
func (g *Gate) queueUp(c *call) {
	c.queue = &g.ready
	g.ready.add(c)
	g.waiting++
	for i := range c.claims {
		c.claims[i].scope.units += c.claims[i].cost
	}
}

// unqueue takes a call out of the queue in which it waits, and lets the next ones be looked at.
func (g *Gate) unqueue(c *call, now time.Time) {
	first, q := c.index == 0, c.queue
	q.remove(c.index)
	c.queue = nil
	g.waiting--
	for i := range c.claims {
		s := c.claims[i].scope
		s.units -= c.claims[i].cost
		if first && q == &s.parked {
			s.wake = time.Time{} // it was that of the call
		}
		g.wake(s, s.wake, now)
	}
	if c.pool != nil && q == c.pool.waiting() {
		g.ripe(q)
	}
}

// park moves a call from ready to a queue, and lets the next ones of its scopes be looked at.
func (g *Gate) park(c *call, to *queue[*call], now time.Time) {
	g.ready.remove(c.index)
	c.queue = to
	to.add(c)
	g.next(c, now)
}

// next lets the first parked calls of all scopes of a call be looked at.
func (g *Gate) next(c *call, now time.Time) {
	for i := range c.claims {
		g.release(c.claims[i].scope, now)
	}
}

// wake sets the time at which the first parked call of a scope is looked at; the zero time is now.
func (g *Gate) wake(s *scope, at, now time.Time) {
	if s.index >= 0 {
		g.wakes.remove(s.index)
	}
	if s.wake = at; at.After(now) {
		g.wakes.add(s)
		return
	}
	g.release(s, now)
}

func (g *Gate) release(s *scope, now time.Time) {
	if len(s.parked) > 0 && !s.wake.After(now) {
		g.ripe(&s.parked)
	}
}

// ripe moves the first call of a queue to ready.
func (g *Gate) ripe(q *queue[*call]) {
	if len(*q) > 0 {
		c := (*q)[0]
		q.remove(0)
		c.queue = &g.ready
		g.ready.add(c)
	}
}

// arm sets the timer for the next call that waits for a time.
func (g *Gate) arm(now time.Time) {
	at := g.tokenAt
	if len(g.wakes) > 0 && (!at.After(now) || g.wakes[0].wake.Before(at)) {
		at = g.wakes[0].wake
	}
	switch {
	case g.waiting == 0 || !at.After(now):
		if g.timer != nil {
			g.timer.Stop()
		}
	case g.timer == nil:
		g.timer = time.AfterFunc(at.Sub(now), func() { g.locked(g.serve) })
	default:
		g.timer.Reset(at.Sub(now))
	}
}
