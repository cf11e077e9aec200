package pace

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/waitq"
)

// turn waits for a ticket.
func (c *call) turn(l *lane) (turn, error) {
	p, t := c.p, &turn{n: c.n}
	p.mu.Lock()
	c.replaced = p.replaced
	ok, full := p.ticket(l, t, c.set), p.waiting >= c.set.MaxQueue
	p.mu.Unlock()
	switch {
	case ok:
		return *t, nil
	case full:
		return *t, ErrFull
	}
	sub := ""
	if c.set.Fair != nil {
		sub = c.set.Fair(c.ctx)
	}
	return c.await(l, sub, t)
}

// ticket gives a call a ticket at once, if it has not to wait for others.
func (p *Pacer) ticket(l *lane, t *turn, set *setting) bool {
	if l.waiting > 0 {
		return false
	}
	permit, ok := l.spare(t.n)
	if !ok && !l.room(t.n, set) {
		return false
	}
	t.permit = permit
	l.out += t.n
	p.count(l)
	return true
}

// await waits in the line of a sub-key.
func (c *call) await(l *lane, sub string, t *turn) (turn, error) {
	p := c.p
	deadline, limited := c.deadline()
	p.mu.Lock()
	if p.waiting >= c.set.MaxQueue {
		p.mu.Unlock()
		return *t, ErrFull
	}
	w := l.line(sub).queue.Push(t, 1)
	if at := c.estimate(l, sub); limited && at.After(deadline) {
		w.Leave()
		l.tidy()
		p.mu.Unlock()
		return *t, c.limited(at)
	}
	l.waiting++
	p.waiting++
	p.grant(l)
	p.count(l)
	p.mu.Unlock()
	c.waited = true
	err := w.Await(c.ctx, p.done, func() (time.Duration, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		left := never
		if limited {
			left = time.Until(deadline)
		}
		return left, t.granted || left <= 0
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && t.granted {
		return *t, nil
	}
	if t.granted { // while it left
		c.passLocked(l, &t.permit)
	} else {
		w.Leave()
		l.waiting--
		p.waiting--
		l.tidy()
		p.count(l)
	}
	if err == nil {
		return *t, c.limited(time.Now().Add(c.set.interval))
	}
	if errors.Is(err, waitq.ErrClosed) {
		err = ErrClosed
	}
	return *t, err
}

// line returns the line of a sub-key.
func (l *lane) line(sub string) *line {
	one := l.lines[sub]
	if one == nil {
		one = &line{sub: sub}
		if l.lines == nil {
			l.lines = map[string]*line{}
		}
		l.lines[sub] = one
		l.turns = append(l.turns, one)
	}
	return one
}

// tidy removes the lines without calls when they are more than half of all.
func (l *lane) tidy() {
	if len(l.turns) <= 2*l.waiting {
		return
	}
	l.turns = slices.DeleteFunc(l.turns, func(one *line) bool {
		empty := one.queue.Len() == 0
		if empty {
			delete(l.lines, one.sub)
		}
		return empty
	})
}

// maxLines is the number of lines that an estimate looks at.
const maxLines = 64

// estimate returns the earliest slot of the newest call of a line, if that is known.
func (c *call) estimate(l *lane, sub string) time.Time {
	if c.set.spacing == 0 || l.of != c.set {
		return time.Time{}
	}
	own := l.lines[sub].queue.Len()
	before := own
	if len(l.turns) <= maxLines {
		for _, other := range l.turns {
			if other.sub != sub {
				before += min(own-1, other.queue.Len())
			}
		}
	}
	slots := max(0, int64(before)-(c.set.capacity-1))
	return l.last.Add(time.Duration(min(slots, int64(never/c.set.spacing)) * int64(c.set.spacing)))
}

// pass gives the ticket of a call to the next one, with the permit that the call did not use.
func (c *call) pass(l *lane, unused *Permit) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.passLocked(l, unused)
}

func (c *call) passLocked(l *lane, unused *Permit) {
	l.out -= c.n
	if c.replaced == c.p.replaced && unused != nil && unused.Cost > 0 && !unused.NotAfter.IsZero() && !unused.Stale() {
		l.spares = append(l.spares, *unused)
	}
	c.p.grant(l)
	c.p.count(l)
}

// newRates makes all waiting calls come under other rates: those with a slot reserve another one. Their slots are refunded
// before, the last one first, since nothing is granted before a slot that is reserved.
func (p *Pacer) newRates() {
	p.mu.Lock()
	var unused []*Permit
	for _, l := range p.lanes {
		unused, l.held = append(unused, l.held...), nil
		for i := range l.spares {
			unused = append(unused, &l.spares[i])
		}
		l.spares = nil
	}
	p.mu.Unlock()
	slices.SortFunc(unused, func(a, b *Permit) int { return b.At.Compare(a.At) })
	for _, permit := range unused {
		p.refund(permit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.replaced)
	p.replaced = make(chan struct{})
	for _, l := range p.lanes {
		p.grant(l)
		p.count(l)
	}
}

func (p *Pacer) refund(permit *Permit) {
	if permit.take != nil {
		_ = p.limiter.Refund(context.Background(), *permit.take) // if the store fails, it comes back in its time
	}
}

// hold remembers the slot of a call that waits for it, until release, which reports whether newRates left it.
func (p *Pacer) hold(l *lane, permit *Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.held = append(l.held, permit)
}

func (p *Pacer) release(l *lane, permit *Permit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(l.held, permit)
	if i >= 0 {
		l.held = slices.Delete(l.held, i, i+1)
	}
	return i >= 0
}

// grant gives tickets to waiting calls: one to each line in turn.
func (p *Pacer) grant(l *lane) {
	for l.waiting > 0 {
		first := l.turns[0]
		w := first.queue.First()
		if w == nil { // its calls have left
			l.turns = l.turns[1:]
			delete(l.lines, first.sub)
			continue
		}
		t := w.Value
		permit, ok := l.spare(t.n)
		if !ok && !l.room(t.n, p.setting()) {
			return
		}
		w.Leave()
		l.out += t.n
		l.waiting--
		p.waiting--
		t.granted, t.permit = true, permit
		l.turns = l.turns[1:]
		if first.queue.Len() > 0 {
			l.turns = append(l.turns, first)
		} else {
			delete(l.lines, first.sub)
		}
	}
}
