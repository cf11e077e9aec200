package gate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"
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
	ok := yield(&c.g.ready) && (c.g.shared == nil || yield(&c.g.asked))
	for _, cl := range c.claims {
		ok = ok && (cl.cost == 0 || yield(&cl.parked))
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

// A queue holds calls that wait, those of each class in the order of their numbers. A call is in at most one queue.
type queue struct {
	calls  [classes][]*call
	passed int // interactive calls since the last background call, of all that wait for the same; at most overtakes
	asked  int // what becomes of passed if the Store grants all that it is asked for, less passed
}

func (q *queue) len() int { return len(q.calls[interactive]) + len(q.calls[background]) }

// first returns the call that is next, or nil if none waits.
func (q *queue) first() *call {
	calls, other := q.calls[interactive], q.calls[background]
	if len(calls) == 0 || len(other) > 0 && q.turn(other[0]) {
		calls = other
	}
	if len(calls) == 0 {
		return nil
	}
	return calls[0]
}

// precedes reports whether a call of the queue goes before a call that is in another one.
func (q *queue) precedes(c *call) bool {
	switch o := q.first(); {
	case o == nil:
		return false
	case o.class() == c.class():
		return o.seq < c.seq
	case o.class() == background:
		return q.turn(o)
	}
	return !q.turn(c)
}

// find returns the place of a call among those of its class.
func (q *queue) find(c *call) (calls *[]*call, i int) {
	calls = &q.calls[c.class()]
	i, _ = slices.BinarySearchFunc(*calls, c.seq, func(o *call, seq uint64) int { return cmp.Compare(o.seq, seq) })
	return calls, i
}

func (q *queue) add(c *call) {
	calls, i := q.find(c)
	*calls = slices.Insert(*calls, i, c)
	c.queue = q
	c.weigh(1)
}

func (q *queue) remove(c *call) {
	c.weigh(-1)
	calls, i := q.find(c)
	if c.queue = nil; i == 0 { // without a move of the others
		(*calls)[0], *calls = nil, (*calls)[1:]
		return
	}
	*calls = slices.Delete(*calls, i, i+1)
}

// A rate.Limiter gives its tokens by reservation. Only the first call of the queue reserves one, at most a second ahead. So the tokens of
// calls that leave are not lost, and a changed limit applies within a second.
type tokens struct {
	reserved *rate.Reservation
	tokenAt  time.Time // when there is one, or when to check again
	credit   int       // tokens that can be used now, reserved ones or returned ones
}

const tokenAhead = time.Second

// token reports whether there is a token for the next call.
func (g *Gate) token() bool {
	of := g.settings().Limiter
	if of == nil {
		return true
	}
	if g.trim(of); g.credit > 0 {
		return true
	}
	if g.reserved == nil {
		r := of.ReserveN(g.now, 1)
		wait := r.DelayFrom(g.now)
		if wait > tokenAhead {
			r.CancelAt(g.now)
			g.tokenAt = g.now.Add(tokenAhead)
			return false
		}
		g.reserved, g.tokenAt = r, g.now.Add(wait)
	}
	g.settleToken()
	return g.credit > 0
}

// settleToken credits the reserved token if its time has come, or returns it if no call waits for it.
func (g *Gate) settleToken() {
	switch {
	case g.settings().Limiter == nil:
		g.tokens = tokens{}
	case g.reserved != nil && !g.tokenAt.After(g.now):
		g.credit++
		g.reserved = nil
	case g.reserved != nil && g.waiting == [classes]int{}:
		g.reserved.CancelAt(g.now)
		g.reserved = nil
	}
}

// trim drops returned tokens that the limiter has replaced since, but not while the Store is asked about a call, which has one of them.
func (g *Gate) trim(of *rate.Limiter) {
	if g.shared == nil || g.asked.len() == 0 {
		g.credit = min(g.credit, max(0, of.Burst()-max(0, int(of.TokensAt(g.now)))))
	}
}

// tokenFor returns the time of the token that a call gets after ahead others. ok is false if there will be none.
func (g *Gate) tokenFor(ahead int) (at time.Time, ok bool) {
	of := g.settings().Limiter
	if of == nil || of.Limit() == rate.Inf {
		return g.now, true
	}
	if of.Burst() < 1 {
		return g.now, false
	}
	g.trim(of)
	missing := float64(1+ahead-g.credit) - of.TokensAt(g.now)
	if g.reserved != nil {
		missing-- // it is the first one's
	}
	if missing <= 0 {
		return g.now, true
	}
	wait := missing / float64(of.Limit()) * float64(time.Second)
	return g.now.Add(time.Duration(min(wait, float64(longestSpan)))), true
}
