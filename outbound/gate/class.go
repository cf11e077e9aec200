package gate

import (
	"context"
	"slices"
)

// The classes of calls. The Store has the same number of overtakes: of nine calls, one is a background call.
const (
	interactive = iota
	background
	classes

	overtakes = 8 // interactive calls before one background call
)

type backgroundKey struct{}

// Background marks the calls under ctx as background calls, for every gate. All others are interactive calls, and go before them. While both
// wait for the same slots, places or connections, at least one call in ten is a background call. The probe after a hold is the oldest
// interactive call, if one waits. With a Store, this applies to all processes together; the probe is then the first interactive call for
// which a process asks the Store. The calls of jobs and batch are background calls, and so are those that their functions make under their
// contexts.
func Background(ctx context.Context) context.Context {
	return context.WithValue(ctx, backgroundKey{}, true)
}

// class returns the class of a call. A permit of Reserve has its slots already, and goes before the calls that wait.
func (c *call) class() int {
	if c.background && c.seq >= unreserved {
		return background
	}
	return interactive
}

// queues are those of the calls that wait for what c waits for.
func (c *call) queues(yield func(q *queue) bool) {
	ok := yield(&c.g.ready)
	for _, cl := range c.claims {
		ok = ok && (!cl.Vendor && cl.cost == 0 || yield(&cl.parked))
	}
	if ok && c.pool != nil {
		yield(&c.pool.parked)
	}
}

// passes returns what a queue counts if a call passes: after so many interactive calls, a background call is next.
func (c *call) passes() int { return [classes]int{1, -overtakes}[c.class()] }

// turn reports whether a background call goes before the interactive calls of the queue, since enough of them have passed. It does not if
// the Store has just refused it, or if it would be the probe of a key that one of them needs.
func (q *queue) turn(c *call) bool {
	return q.passed+q.asked >= overtakes && !slices.ContainsFunc(c.claims, func(cl *claim) bool {
		return cl.hold != nil && cl.hold.room == 1 && q.claims(cl.scope) || cl.refused[background].quiet.After(c.g.now)
	})
}

// claims reports whether an interactive call of the queue needs a scope.
func (q *queue) claims(s *scope) bool {
	return slices.ContainsFunc(q.calls[interactive], func(c *call) bool {
		return slices.ContainsFunc(c.claims, func(cl *claim) bool { return cl.scope == s })
	})
}
