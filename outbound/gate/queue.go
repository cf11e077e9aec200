package gate

import (
	"cmp"
	"slices"
)

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
