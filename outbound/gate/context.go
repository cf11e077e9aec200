package gate

import (
	"context"
	"net/http"
	"slices"
)

// A context carries the Calls of WithCall and Do, the innermost first, the permit of a call that has passed the gate, and the pools whose
// connections are in use by the functions around.
type (
	carryKey struct{ g *Gate }
	carried  struct {
		calls  []Call
		keys   []Call // of PoolConfig.Call, the innermost first; calls override them
		permit *call
		number int // among the permits of this call
		pools  []*pool
		record *record // of the last attempt; nil without WithCall and permit
	}
)

func (c carried) all() []Call { return append(slices.Clip(c.calls), c.keys...) }

func (g *Gate) carried(ctx context.Context) carried {
	c, _ := ctx.Value(carryKey{g}).(carried)
	return c
}

// WithCall returns a context under which the requests of Transport, and calls of Do and Stream, have the keys and costs of
// the call. Other gates ignore it.
func (g *Gate) WithCall(ctx context.Context, call Call) context.Context {
	c := g.carried(ctx)
	c.calls, c.record = append([]Call{call}, c.calls...), &record{outer: c.record}
	return context.WithValue(ctx, carryKey{g}, c)
}

// carry returns the context for a function that makes the call under ctx.
func (c *call) carry(ctx context.Context) context.Context {
	in := c.g.carried(ctx)
	defer c.g.lock()()
	c.permits++
	c.used, c.refused, c.final, c.counted, c.passed = false, false, false, false, false
	c.record = &record{outer: in.record}
	c.record.note(c.turn)
	if in.permit, in.number, in.record = c, c.permits, c.record; c.pool != nil {
		in.pools = append(slices.Clip(in.pools), c.pool)
	}
	return context.WithValue(ctx, carryKey{c.g}, in)
}

// enter returns the call for a request, or for a call of Do. If the context carries an unused permit, it is the call of that permit, and
// own is false. The keys of the request are added to it; if it did not have them all, it passes the gate again.
func (g *Gate) enter(ctx context.Context, r *http.Request) (c *call, own bool, err error) {
	in := g.carried(ctx)
	wants, err := g.settings().wants(r, in.all())
	if err != nil {
		return nil, false, err
	}
	if in.permit != nil && in.permit.adopt(in, wants) {
		return in.permit, false, nil
	}
	if c, err = g.accept(ctx, wants); err == nil {
		c.outer = in.permit
	}
	return c, true, err
}

// adopt uses a permit for a call. It reports whether that was possible: each permit is used once. The function of a nested call has a later
// permit of the same call.
func (c *call) adopt(in carried, wants []want) bool {
	defer c.g.lock()()
	if c.used || c.permits != in.number || c.turn == nil {
		return false
	}
	missing := func(w want) bool {
		return !slices.ContainsFunc(c.claims, func(cl *claim) bool { return cl.route == w.Key && cl.cost == w.cost })
	}
	c.record = in.record
	if c.used = true; slices.ContainsFunc(wants, missing) {
		c.g.undo(c)
		for _, w := range wants {
			c.claim(w)
		}
	}
	return true
}
