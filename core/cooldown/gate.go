package cooldown

import (
	"slices"
	"time"

	"github.com/gresil/gresil/internal/waitq"
)

const (
	fullRoom   = 64          // after which all calls are admitted
	leastAgain = time.Second // that a key is held after a failure
)

// A gate is a key that is held, or was. It is guarded by the lock of the cooldown.
type gate struct {
	key        string
	index      int           // in the heap
	generation uint64        // another one for each hold
	until      time.Duration // when the hold is over
	lasted     time.Duration // its duration
	idle       time.Duration // the earliest time since which no call runs
	refusal    *HeldError
	room       int                  // number of calls that may run
	slots      []slot               // of the calls that run, the oldest first
	queue      waitq.Queue[waiting] // first come, first served
}

// A slot is a call that runs.
type slot struct {
	id    uint64
	since time.Duration
}

func (g *gate) indexOf(id uint64) int {
	return slices.IndexFunc(g.slots, func(s slot) bool { return s.id == id })
}

// open reports whether another call may run.
func (g *gate) open(now time.Duration) bool { return now >= g.until && len(g.slots) < g.room }

// next returns the time at which the first waiter has to look again.
func (g *gate) next(now, timeout time.Duration) time.Duration {
	if now < g.until || len(g.slots) == 0 {
		return g.until
	}
	return saturated(g.slots[0].since, timeout)
}

func (g *gate) wakeFirst() {
	if w := g.queue.First(); w != nil {
		w.Signal()
	}
}

// overdue frees the slots of calls that took longer than ProbeTimeout.
func (c *Cooldown) overdue(g *gate, now time.Duration) {
	n := 0
	for n < len(g.slots) && now-g.slots[n].since >= c.config().ProbeTimeout {
		n++
	}
	if n > 0 {
		c.stats.Overdue += uint64(n)
		g.idle = now
		g.slots = slices.Delete(g.slots, 0, n)
	}
}

// stale reports whether the key was idle after its hold for as long as the hold was, and
// need not be kept.
func (c *Cooldown) stale(g *gate, now time.Duration) bool {
	c.overdue(g, now)
	return !c.config().Keep && len(g.slots) == 0 && g.queue.Len() == 0 && now-g.idle >= g.lasted
}

func saturated(a, b time.Duration) time.Duration {
	if b > 1<<63-1-a {
		return 1<<63 - 1
	}
	return a + b
}

// ends is a heap of gates, by when their holds are over.
type ends []*gate

func (e *ends) Len() int           { return len(*e) }
func (e *ends) Less(i, j int) bool { return (*e)[i].until < (*e)[j].until }
func (e *ends) Swap(i, j int) {
	all := *e
	all[i], all[j] = all[j], all[i]
	all[i].index, all[j].index = i, j
}

// Push adds a gate.
func (e *ends) Push(x any) {
	g := x.(*gate)
	g.index = len(*e)
	*e = append(*e, g)
}

// Pop takes the last one off.
func (e *ends) Pop() any {
	last := len(*e) - 1
	g := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return g
}
