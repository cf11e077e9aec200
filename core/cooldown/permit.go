package cooldown

import (
	"context"
	"slices"
	"time"

	"github.com/gresil/gresil/core"
)

// A Permit is a call that was admitted. Call Done exactly once, when the call has
// ended or is not made. A Permit is a value for the goroutine that makes the call; a
// second Done of the same variable does nothing, nor does one of the zero Permit.
type Permit struct {
	cooldown   *Cooldown
	ctx        context.Context //nolint:containedctx // for the events; a permit is part of one call
	key        string
	word       uint64        // of the cooldown when it was admitted, or was Ready
	generation uint64        // of the gate
	slot       uint64        // in the gate, 0 when the key was free
	waited     time.Duration // for the gate
}

// Waited is how long Acquire has waited; 0 if it did not.
func (p *Permit) Waited() time.Duration { return p.waited }

// Probe reports whether the call is one of the few that run after a hold, to test whether
// the server has recovered.
func (p *Permit) Probe() bool { return p.slot != 0 }

// Ready reports whether the call may still be made: no hold began since, and a permit
// that was admitted after a hold is not older than ProbeTimeout. Call it right before the
// call if time passed after Acquire. If it is false, end the permit with a Done of
// [core.Ignored], and acquire another one.
func (p *Permit) Ready() bool {
	c := p.cooldown
	if c != nil && c.table != nil {
		c.table.Sync(p.ctx, p.key)
	}
	if c == nil || p.slot == 0 && c.word.Load() == p.word {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch g := c.lookup(p.key, c.now()); {
	case g == nil:
		p.word = c.word.Load() // as if it was admitted now: its answer is not late
		return true
	case p.slot == 0:
		return false
	default:
		return g.generation == p.generation && g.indexOf(p.slot) >= 0
	}
}

// Hold holds the key for d from now on, as the answer to this call asks: see
// [Cooldown.Hold]. If the key is held by now, d can only extend that hold. If a hold began
// after the call was admitted, or was last Ready, and its time is over, nothing happens: only
// calls that were sent after it decide, however its ramp has gone on meanwhile. The cooldown
// remembers the last 256 keys that recovered. Call Hold before Done.
func (p *Permit) Hold(d time.Duration) {
	c := p.cooldown
	if c == nil || d <= 0 {
		return
	}
	c.locked(func(now time.Duration) {
		if g := c.lookup(p.key, now); !c.late(p, g, now) {
			c.hold(p.ctx, p.key, g, now, d, held)
		}
	})
}

// late reports whether the result of p is about an earlier state of its key.
func (c *Cooldown) late(p *Permit, g *gate, now time.Duration) bool {
	admitted := p.word >> 1
	if g != nil {
		return now >= g.until && g.generation > admitted
	}
	return slices.ContainsFunc(c.recovered, func(r recovery) bool { return r.generation > admitted && r.key == p.key })
}

// A recovery is a key that was forgotten after its hold.
type recovery struct {
	key        string
	generation uint64 // of that hold
	lasted     time.Duration
}

const maxRecovered = 256

// recover forgets a key whose hold is over. Calls that were admitted before that hold are
// late. Those of its ramp that still run are not: one of them can begin the next hold.
func (c *Cooldown) recover(g *gate) {
	if len(c.recovered) == maxRecovered {
		c.recovered = c.recovered[1:]
	}
	c.recovered = append(c.recovered, recovery{g.key, g.generation, g.lasted})
	c.forget(g)
}

// lasted returns how long the last hold of a key lasted that was forgotten since, or 0.
func (c *Cooldown) lasted(key string) time.Duration {
	for _, r := range slices.Backward(c.recovered) {
		if r.key == key {
			return r.lasted
		}
	}
	return 0
}

// Done ends the call. After a hold, a [core.Success] makes room for one more call, and a
// [core.Failure] holds the key for as long again as the last time, and at least a
// second, also if the ramp has ended meanwhile. If the answer says how long to wait, call
// [Permit.Hold] before Done; the Done then changes nothing. [core.Ignored], or an unknown
// outcome, lets another call take the place of this one. Done changes nothing if the call
// was not one of a ramp, or if another hold began since.
func (p *Permit) Done(outcome core.Outcome) { p.end(outcome, 0) }

// Failed ends the call as Done does with a [core.Failure], but the key is held for d. If d
// is not above 0, Failed is that Done.
func (p *Permit) Failed(d time.Duration) { p.end(core.Failure, d) }

func (p *Permit) end(outcome core.Outcome, hold time.Duration) {
	c := p.cooldown
	p.cooldown = nil
	if c != nil && p.slot != 0 {
		c.locked(func(now time.Duration) { c.end(p, outcome, hold, now) })
	}
}

func (c *Cooldown) end(p *Permit, outcome core.Outcome, hold, now time.Duration) {
	g := c.gates[p.key]
	if g == nil { // the ramp has ended
		if outcome == core.Failure && !c.late(p, nil, now) {
			c.again(p, nil, hold, c.lasted(p.key), now)
		}
		return
	}
	if g.generation != p.generation {
		return
	}
	c.overdue(g, now)
	if i := g.indexOf(p.slot); i >= 0 {
		g.slots = slices.Delete(g.slots, i, i+1)
	}
	g.idle = max(g.idle, now)
	switch outcome {
	case core.Success:
		if g.room++; g.room == 2 {
			c.stats.Resumed++
			c.changes.Append(change{ctx: p.ctx, key: g.key, until: g.refusal.until, what: resumed})
		}
		if g.room >= fullRoom || len(g.slots) == 0 && g.queue.Len() == 0 {
			c.recover(g)
			return
		}
	case core.Failure:
		c.again(p, g, hold, g.lasted, now)
		return
	case core.Ignored:
	}
	c.serve(g, now)
}

// again holds the key of p for hold, or if that is not above 0 for as long as the last hold.
func (c *Cooldown) again(p *Permit, g *gate, hold, lasted, now time.Duration) {
	if hold <= 0 {
		hold = max(lasted, leastAgain)
	}
	c.hold(p.ctx, p.key, g, now, hold, held)
}
