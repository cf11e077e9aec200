package gate

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/validate"
)

// Settle reports what a call has really cost, by the name of the limit, after it has taken an estimate. What was taken in excess is given
// back, as far as it still fits into Burst; what is missing is charged to the calls that follow, until the vendor has forgotten the call. A
// second Settle replaces the first one, unless that has charged another key, such as a bucket that was named meanwhile. Once the period of
// a limit is over, counted from the slot of the call, Settle changes nothing.
//
// ctx is the one that [Gate.Do], [Do], [Stream], jobs or batch have given to a function, or one of [Gate.WithCall]. It stands for the last
// call under it, so use a context of its own for each call. Settle a request over Transport when its response is there, and a permit of
// Wait or Reserve after Done. Settle does nothing if no call was sent, and for limits that do not apply to it or whose estimate was 0.
//
// The error is a *core.ConfigError if a cost is negative, or there is no such limit. With a Store, the costs are sent in the background;
// if that fails, or the Store is unavailable, the call cannot be settled. Calls that wait in other processes do not learn that they can be
// sent earlier.
func (g *Gate) Settle(ctx context.Context, actual map[string]int64) error {
	set := g.settings()
	for name, cost := range actual {
		if set.named[name] == nil {
			return validate.Bad("gate.Settle.actual", name, "must be the name of a limit")
		}
		if cost < 0 {
			return validate.Bad("gate.Settle.actual", cost, fmt.Sprintf("must be >= 0, as the cost in the limit %q", name))
		}
	}
	defer g.lock()()
	if r := g.carried(ctx).record; r != nil {
		r.last.settle(g, actual)
	}
	return nil
}

// actual settles a call by its response.
func (s *sending) actual(resp *http.Response) {
	if of := s.gate.settings().Actual; of != nil {
		costs := peek(resp, of)
		defer s.gate.lock()()
		s.call.turn.settle(s.gate, costs)
	}
}

// A record leads from a context to the last attempt under it.
type record struct {
	outer *record // of the context around
	last  *turn
}

func (r *record) note(t *turn) {
	for ; r != nil; r = r.outer {
		r.last = t
	}
}

// sent keeps what an attempt has taken, if it can be settled, and settles it if its cost is known already.
func (c *call) sent() {
	if t := c.turn; t != nil && (c.record != nil || c.g.settings().Actual != nil) {
		for _, cl := range c.claims {
			t.slots = append(t.slots, *cl)
		}
		c.record.note(t)
		t.settle(c.g, t.due)
	}
}

// settle settles an attempt. Until that is judged, only the costs are kept: it is not known whether it was sent.
func (t *turn) settle(g *Gate, actual map[string]int64) {
	switch {
	case t == nil:
	case t.slots != nil:
		for i := range t.slots {
			if cost, ok := actual[t.slots[i].Limit]; ok && cost >= 0 {
				g.settle(&t.slots[i], i, cost)
			}
		}
	case t.due == nil:
		t.due = maps.Clone(actual)
	default:
		maps.Copy(t.due, actual)
	}
}

// settle counts the slot of a draw at another cost. The vendor forgets after the period, so more than N makes no difference.
func (g *Gate) settle(cl *claim, draw int, cost int64) {
	l, s, to := g.settings().named[cl.Limit], cl.slot, cl.scope
	if l == nil || l.N <= 0 || s.at.IsZero() || !g.now.Before(s.at.Add(l.Per)) {
		return
	}
	if cost = min(cost, max(l.N, s.cost)); cost == s.cost {
		return
	}
	if cost > s.cost { // in the key that counts now: the scope of the call may be forgotten, or the vendor has named a bucket
		to = g.scope(g.bucket(cl.route))
	}
	lost := s.by != nil && (g.over || g.failed != nil)
	if cl.slot.cost = cost; to != cl.scope || lost {
		cl.slot = slot{} // it cannot be settled again
	}
	switch {
	case lost:
	case s.by == nil:
		to.settle(s, cost)
		g.wake(to, time.Time{})
	default:
		unit := s.by.draws[draw].Unit // the limit can have changed since
		g.ends = append(g.ends, gatestore.End{
			Of:      gatestore.Slot{Time: s.by.Time, Generations: []uint64{0}, Marks: s.by.Marks[draw : draw+1]}, // 0 after a lost report
			Draws:   []gatestore.Draw{{Key: to.Key, Spacing: span(s.cost, unit), Unit: unit}},
			Settled: []gatestore.Settled{{Cost: span(cost, unit), Most: span(l.N, unit)}},
		})
		g.kick()
	}
}

// A low is about slots that follow each other: the least of what they have left. That is how far ahead the end of the usage was when such a
// slot was given, minus what was given back since.
type low struct {
	mark uint64 // of the last of these slots
	left time.Duration
}

const maxLows = 32

// given numbers a slot, and notes what it has left.
func (u *usage) given(left time.Duration) {
	n := len(u.lows)
	for n > 0 && u.lows[n-1].left >= left {
		n--
	}
	u.mark++
	if u.lows = append(u.lows[:n], low{u.mark, left}); len(u.lows) > maxLows {
		u.lows[1].left = min(u.lows[0].left, u.lows[1].left)
		u.lows = slices.Delete(u.lows, 0, 1)
	}
}

// settle counts a slot at another cost. It gives back no more than what all slots after it have left: with less usage before them, they
// would not have been earlier.
func (u *usage) settle(s slot, cost int64) {
	more, after := span(cost, u.spacing)-span(s.cost, u.spacing), u.lows
	for len(after) > 0 && after[0].mark <= s.mark {
		after = after[1:]
	}
	for _, l := range after {
		more = max(more, -l.left)
	}
	for i := range after {
		after[i].left += min(0, more)
	}
	if more > 0 { // the scope can be a new one
		u.tail = later(u.tail, s.at.Add(span(s.cost, u.spacing)))
		// N permits after the slot, the vendor has forgotten it, and all before it.
		if most := max(0, s.at.Add(span(u.N, u.spacing)).Sub(u.tail)); most < more {
			more = most
			u.given(0)
		}
	}
	u.tail, u.pace = u.tail.Add(more), u.pace.Add(more)
}
