package gate

import (
	"context"
	"net/http"
	"slices"
)

// A context carries the Calls of WithCall, the innermost first, and the permit of a call that has passed the gate.
type (
	carryKey struct{ g *Gate }
	carried  struct {
		calls  []Call
		permit *call
	}
)

func (g *Gate) carried(ctx context.Context) carried {
	c, _ := ctx.Value(carryKey{g}).(carried)
	return c
}

// WithCall returns a context under which the requests of Transport, and calls of Do and Stream, have the keys and costs of
// the call. Other gates ignore it.
func (g *Gate) WithCall(ctx context.Context, call Call) context.Context {
	c := g.carried(ctx)
	c.calls = append([]Call{call}, c.calls...)
	return context.WithValue(ctx, carryKey{g}, c)
}

// carry returns the context for a function that makes the call.
func (c *call) carry() context.Context {
	defer c.g.lock()()
	c.used, c.refused, c.counted, c.passed = false, false, false, false
	return context.WithValue(c.ctx, carryKey{c.g}, carried{c.calls, c})
}

// enter returns the call for a request, or for a call of Do. If the context carries an unused permit, it is the call of that permit, and
// own is false. The keys of the request are added to it; if it did not have them all, it passes the gate again.
func (g *Gate) enter(ctx context.Context, r *http.Request, calls []Call) (c *call, own bool, err error) {
	wants, err := g.settings().wants(r, calls)
	if err != nil {
		return nil, false, err
	}
	outer := g.carried(ctx).permit
	if outer != nil && outer.adopt(wants) {
		return outer, false, nil
	}
	if c, err = g.accept(ctx, wants, calls); err == nil {
		c.outer = outer
	}
	return c, true, err
}

// adopt uses the permit for a call. It reports whether that was possible: a permit is used once.
func (c *call) adopt(wants []want) bool {
	defer c.g.lock()()
	if c.used || c.turn == nil {
		return false
	}
	missing := func(w want) bool {
		return !slices.ContainsFunc(c.claims, func(cl *claim) bool { return cl.Key == w.Key && cl.cost == w.cost })
	}
	if c.used = true; slices.ContainsFunc(wants, missing) {
		c.g.undo(c)
		for _, w := range wants {
			c.claim(w)
		}
	}
	return true
}
