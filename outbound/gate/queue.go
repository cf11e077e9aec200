package gate

import (
	"cmp"
	"slices"
)

// A queue holds calls that wait, in the order of their numbers. A call is in at most one queue.
type queue []*call

func (q *queue) find(c *call) int {
	i, _ := slices.BinarySearchFunc(*q, c.seq, func(o *call, seq uint64) int { return cmp.Compare(o.seq, seq) })
	return i
}

func (q *queue) add(c *call) {
	*q = slices.Insert(*q, q.find(c), c)
	c.queue = q
	c.weigh(1)
}

func (q *queue) remove(c *call) {
	c.weigh(-1)
	i := q.find(c)
	if c.queue = nil; i == 0 { // without a move of the others
		(*q)[0], *q = nil, (*q)[1:]
		return
	}
	*q = slices.Delete(*q, i, i+1)
}
