package pace

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/waitq"
)

const never = time.Duration(math.MaxInt64)

// A lane is the queue of one key in this process. It limits the slots that are reserved and not
// reached: a call needs a ticket for a reservation, and passes it on at its slot. All fields are
// guarded by the mutex of the pacer.
type lane struct {
	key     string
	users   int              // calls that use the lane
	lines   map[string]*line // waiting calls, by sub-key
	turns   []*line          // the same, in the order in which they are served
	waiting int              // calls in lines
	out     int64            // permits of calls with a ticket
	load    int64            // as counted in Pacer.busy
	spares  []Permit         // of calls that left, not used
	held    []*Permit        // of calls that wait for their slots
	last    time.Time        // the latest slot that was reserved, never later than it is
	ahead   time.Duration    // the time from the last reservation to its slot
	tickets float64          // the number of permits that may have one
	reply   time.Duration    // the mean time of a reply of the store
	of      *setting         // of last, ahead and tickets
}

// A line is the queue of one sub-key. After its last call has left, it stays in its lane until its
// next turn, or until tidy removes it.
type line struct {
	sub   string
	queue waitq.Queue[*turn]
}

// A turn is the right of a waiting call to reserve.
type turn struct {
	n       int64
	granted bool
	permit  Permit // of a call that left; its Cost is 0 if there is none
}

// enter returns the lane of a key. The caller leaves it.
func (p *Pacer) enter(key string) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lanes[key]
	if l == nil {
		if len(p.lanes) >= p.most { // at most twice as large as needed
			p.sweep()
			p.most = 2*len(p.lanes) + 64
		}
		l = &lane{key: key}
		p.lanes[key] = l
	}
	l.users++
	return l
}

// sweep removes idle lanes.
func (p *Pacer) sweep() {
	now := time.Now()
	maps.DeleteFunc(p.lanes, func(_ string, l *lane) bool { return l.idle(now) })
}

func (p *Pacer) leave(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users--; l.users == 0 && l.idle(time.Now()) {
		delete(p.lanes, l.key)
	}
}

// idle reports whether nothing is lost with the lane.
func (l *lane) idle(now time.Time) bool {
	l.spares = slices.DeleteFunc(l.spares, func(s Permit) bool { return s.staleAt(now) })
	return l.users == 0 && len(l.spares) == 0 && !l.last.After(now)
}

// count updates busy after a change of the lane.
func (p *Pacer) count(l *lane) {
	load := l.out + int64(l.waiting)
	p.busy.Add(load - l.load)
	l.load = load
}

// spare takes a permit that another call did not use, if no call waits for one.
func (p *Pacer) spare(l *lane, n int64) (Permit, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.waiting > 0 {
		return Permit{}, false
	}
	return l.spare(n)
}

func (l *lane) spare(n int64) (Permit, bool) {
	if len(l.spares) == 0 {
		return Permit{}, false
	}
	now := time.Now()
	l.spares = slices.DeleteFunc(l.spares, func(s Permit) bool { return s.staleAt(now) })
	first := -1
	for i, s := range l.spares {
		if s.Cost >= n && (first < 0 || s.At.Before(l.spares[first].At)) {
			first = i
		}
	}
	if first < 0 {
		return Permit{}, false
	}
	permit := l.spares[first]
	l.spares = slices.Delete(l.spares, first, first+1)
	return permit, true
}

// lastOf returns the latest slot that was reserved under the setting in force, which applies to the
// call, and the time to it then.
func (c *call) lastOf(l *lane) (last time.Time, ahead time.Duration) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.replaced, c.set = c.p.replaced, c.p.setting()
	if l.of != c.set {
		return last, 0
	}
	return l.last, l.ahead
}

// reserved notes a slot, and adapts the number of tickets. If the slots of other processes lie
// between, fewer of them cover the same time. So the slots that are reserved by all processes
// together are hardly further ahead than those of one, and processes with more tickets lose more. Calls
// that wait for the reply of the store have tickets too, so a slow store needs more of them.
func (p *Pacer) reserved(l *lane, set *setting, from time.Time, reply, ahead time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.reply += (min(reply, set.Slack) - l.reply) / 8
	most := float64(1 + int64((lookAhead+l.reply)/set.fastest))
	if l.of != set {
		l.tickets = float64(set.tickets)
	}
	if at := from.Add(ahead); l.of != set || at.After(l.last) {
		l.last, l.ahead, l.of = at, ahead, set
	}
	switch {
	case ahead <= lookAhead*6/5:
		l.tickets = min(most, l.tickets+0.25)
	case set.fastest < set.interval && ahead > 2*(lookAhead+set.fastest): // the slowest rate decides now
		l.tickets = float64(set.tickets)
	default:
		l.tickets = max(1, l.tickets-l.tickets/most/2)
	}
}

// room reports whether a call of cost n can have a ticket.
func (l *lane) room(n int64, set *setting) bool {
	tickets := set.tickets
	if l.of == set {
		tickets = int64(l.tickets)
	}
	return l.out == 0 || l.out+n <= tickets
}
