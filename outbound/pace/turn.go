package pace

import (
	"errors"
	"time"

	"github.com/gresil/gresil/internal/waitq"
)

// turn waits for a ticket.
func (c *call) turn(l *lane) (turn, error) {
	p, t := c.p, &turn{n: c.n}
	p.mu.Lock()
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
		p.passLocked(l, t.n, &t.permit)
	} else {
		w.Leave()
		l.waiting--
		p.waiting--
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
func (p *Pacer) pass(l *lane, n int64, unused *Permit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passLocked(l, n, unused)
}

func (p *Pacer) passLocked(l *lane, n int64, unused *Permit) {
	l.out -= n
	if unused != nil && unused.Cost > 0 && !unused.NotAfter.IsZero() && !unused.Stale() {
		l.spares = append(l.spares, *unused)
	}
	p.grant(l)
	p.count(l)
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
