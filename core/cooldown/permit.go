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
	ctx        context.Context //nolint:containedctx // for the hooks; a permit is part of one call
	key        string
	word       uint64        // of the cooldown when it was admitted
	generation uint64        // of the gate
	slot       uint64        // in the gate, 0 when the key was free
	waited     time.Duration // for the gate
}

// Waited is how long Acquire has waited; 0 if it did not.
func (p *Permit) Waited() time.Duration { return p.waited }

// Probe tells whether the call is one of the few that are made after a hold, to find out
// whether it is over.
func (p *Permit) Probe() bool { return p.slot != 0 }

// Ready tells whether the call may still be made: the key was not held since, and the
// permit is not older than ProbeTimeout where there was a hold before it. Ask right
// before the call when something took time after Acquire. Where it is false, give the
// permit back, with a Done of [core.Ignored], and acquire another one.
func (p *Permit) Ready() bool {
	c := p.cooldown
	if c == nil || p.slot == 0 && c.word.Load() == p.word {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch g := c.lookup(p.key, c.now()); {
	case g == nil:
		return true
	case p.slot == 0:
		return false
	default:
		return g.generation == p.generation && g.indexOf(p.slot) >= 0
	}
}

// Done ends the call. After a hold a [core.Success] makes room for one more, and a
// [core.Failure] holds the key for as long again as the last time, and at least a
// second; a call that was told how long to wait has a [Cooldown.Hold] before its Done,
// after which that says nothing any more. [core.Ignored], or what is no outcome, lets
// another one take its place. If the key was not held when the call was admitted, all
// three do nothing.
func (p *Permit) Done(outcome core.Outcome) {
	c := p.cooldown
	if c == nil {
		return
	}
	p.cooldown = nil
	if p.slot != 0 {
		c.end(p, outcome)
	}
}

func (c *Cooldown) end(p *Permit, outcome core.Outcome) {
	defer c.announce()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	g := c.gates[p.key]
	if g == nil || g.generation != p.generation {
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
			c.changes.Append(change{p.ctx, g.key, g.refusal.until, false})
		}
		if g.room >= fullRoom || len(g.slots) == 0 && g.queue.Len() == 0 {
			c.forget(g)
			return
		}
	case core.Failure:
		c.hold(p.ctx, g.key, g, now, max(g.lasted, leastAgain))
		return
	case core.Ignored:
	}
	c.serve(g, now)
}
