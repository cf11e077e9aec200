package gate

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// A call is one call that was accepted: all of its attempts. It belongs to one goroutine, apart from what the lock of the gate guards.
type call struct {
	g      *Gate
	ctx    context.Context //nolint:containedctx // a call is made in one function; Close ends it
	cancel context.CancelCauseFunc
	seq    uint64 // calls are served in this order; one that comes again keeps its number
	claims []claim
	pool   pooling // nil if it needs no connection
	conn   any     // of the pool
	key    any     // of the connection
	pinned bool    // it keeps its connection

	turn     *turn // of the last admission; nil if it was undone
	token    bool
	since    time.Time // of the wait
	deadline time.Time // of the wait; zero: none
	queue    *queue[*call]
	index    int
	granted  chan struct{}
	err      error // of the wait
	attempts int   // that were made
	last     error // of the last attempt

	used    bool // a request has used the permit that the context carries
	refused bool // and was refused
	counted bool // and has told how it went
}

// A claim is what a call wants of a scope.
type claim struct {
	scope *scope
	cost  int64
	seen  uint64 // the generation of the scope at the admission
	slot  slot
	paced bool // the admission has counted
}

func (c *call) before(o *call) bool { return c.seq < o.seq }
func (c *call) move(index int)      { c.index = index }

func (c *call) under(s *scope) bool {
	return slices.ContainsFunc(c.claims, func(cl claim) bool { return cl.scope == s })
}

func (c *call) grant(err error) {
	c.err = err
	close(c.granted)
}

// accept accepts a call under ctx, which ends with end.
func (g *Gate) accept(ctx context.Context, wants []want) (c *call, err error) {
	c = &call{g: g, index: -1}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	g.locked(func(now time.Time) {
		if g.closed {
			g.stats.Rejected++
			err = ErrClosed
			return
		}
		g.seq++
		c.seq = g.seq
		g.calls[c] = struct{}{}
		c.claim(scopeID{vendor: true}, 0, now)
		for _, w := range wants {
			c.claim(scopeID{limit: w.limit.Name, key: w.key}, w.cost, now)
		}
	})
	if err != nil {
		c.cancel(nil)
	}
	return c, err
}

// claim adds a claim. It reports whether it was there.
func (c *call) claim(id scopeID, cost int64, now time.Time) (had bool) {
	i := slices.IndexFunc(c.claims, func(cl claim) bool { return cl.scope.id == id })
	if i < 0 {
		s := c.g.scope(id, now)
		s.calls++
		c.claims = append(c.claims, claim{scope: s, cost: cost, seen: s.gen})
		return false
	}
	had = c.claims[i].cost == cost
	c.claims[i].cost = cost
	return had
}

// end ends the call. It can be called again.
func (c *call) end() {
	g := c.g
	g.locked(func(now time.Time) {
		if _, ok := g.calls[c]; !ok {
			return
		}
		if c.attempts == 0 {
			g.stats.Rejected++
		}
		g.leaveRamp(c, false, now)
		g.land(c.turn)
		delete(g.calls, c)
		for i := range c.claims {
			s := c.claims[i].scope
			s.calls--
			g.drop(s, now)
		}
		g.serve(now)
		if g.drained != nil && len(g.calls) == 0 {
			close(g.drained)
		}
	})
	c.cancel(nil)
}

// pass waits until the call is admitted.
func (c *call) pass(ctx context.Context) (err error) {
	g := c.g
	g.locked(func(now time.Time) { err = c.enqueue(ctx, now) })
	if err != nil {
		return err
	}
	var late <-chan time.Time
	if most := g.settings().MaxWait; most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-c.granted:
		return c.err
	case <-late:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	g.locked(func(now time.Time) {
		over := c.over(ctx)
		switch {
		case c.queue != nil:
			g.unqueue(c, now)
			if err = over; err == nil {
				at, limit, _ := c.estimate(now)
				err = c.limited(at, limit)
			}
		case c.err != nil:
			err = c.err
		case over != nil: // it was admitted meanwhile
			g.undo(c, now)
			err = over
		}
		g.serve(now)
	})
	return err
}

// over returns the error of a call whose context has ended.
func (c *call) over(ctx context.Context) error {
	switch cause := context.Cause(c.ctx); {
	case cause == errCut && c.attempts == 0: //nolint:errorlint // it is the one of Close
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return cause
	}
}

// until returns when a wait that begins now has to be over; the zero time is never.
func (c *call) until(ctx context.Context, now time.Time) time.Time {
	deadline, has := ctx.Deadline()
	if most := c.g.settings().MaxWait; most != 0 {
		if end := now.Add(max(0, most)); !has || end.Before(deadline) {
			return end
		}
	}
	return deadline
}

// enqueue adds the call to the queue, and serves it. The error is that of a call that cannot wait.
func (c *call) enqueue(ctx context.Context, now time.Time) error {
	g, set := c.g, c.g.settings()
	if err := c.over(ctx); err != nil {
		return err
	}
	c.deadline = c.until(ctx, now)
	at, limit, ok := c.estimate(now)
	if !ok || !c.deadline.IsZero() && at.After(c.deadline) {
		return c.limited(at, limit)
	}
	first := c.since.IsZero()
	c.since, c.granted, c.err = now, make(chan struct{}), nil
	g.queueUp(c)
	g.serve(now)
	var err error
	switch {
	case c.queue == nil:
		return nil
	case set.MaxWait < 0:
		err = c.limited(at, limit)
	case g.waiting > set.MaxQueue && first:
		err = ErrFull
	default:
		return nil
	}
	g.unqueue(c, now)
	g.serve(now)
	return err
}

// estimate returns the earliest time at which the call can be sent, as far as that is known, and the limit that decides it. A call that
// did not wait yet comes last, others first. It is false if there is no such time.
func (c *call) estimate(now time.Time) (at time.Time, limit string, ok bool) {
	g, shelf, last := c.g, c.g.settings().shelf, c.since.IsZero()
	at, ok = g.tokenFor(last, now)
	for i := range c.claims {
		cl := &c.claims[i]
		s := cl.scope
		own, _ := s.held(now)
		if own = later(own, now); s.counts(cl.cost) {
			if own, _ = s.usage.next(s.limit, cl.cost, own, shelf); last {
				own = own.Add(span(s.units, s.limit.spacing))
			}
		}
		if own.After(at) {
			at, limit = own, s.id.limit
		}
	}
	return at, limit, ok
}

// limited returns the error of a call that has to wait until a time.
func (c *call) limited(at time.Time, limit string) error {
	e := &LimitedError{Gate: c.g.Name(), Limit: limit, Err: c.last}
	if at.After(time.Now()) {
		e.Until = at
	}
	return e
}

// ready is the last check right before the send: it reports whether no hold has begun since the admission, and the turn is not given
// up. With slots it takes those of the call, and waits for them, and for nothing else.
func (c *call) ready(ctx context.Context, slots bool) bool {
	for {
		ok, wait := true, time.Duration(0)
		c.g.locked(func(now time.Time) {
			if ok = c.turn != nil && !c.turn.givenUp && ctx.Err() == nil && c.current(); ok && slots {
				wait = c.takeSlots(now)
			}
		})
		if !ok || wait <= 0 {
			return ok
		}
		if !sleep(ctx, wait) {
			return false
		}
	}
}

// current reports whether no hold on a key of the call has begun since its admission.
func (c *call) current() bool {
	return !slices.ContainsFunc(c.claims, func(cl claim) bool { return cl.scope.gen != cl.seen })
}

// charge takes the slots of a call that was sent without them, as it did not tell when.
func (c *call) charge(now time.Time) {
	if !slices.ContainsFunc(c.claims, func(cl claim) bool { return !cl.slot.at.IsZero() }) {
		c.takeSlots(now)
	}
}

// takeSlots takes a slot for each claim that has none, or one that is too old, and returns the time until the last of them.
func (c *call) takeSlots(now time.Time) (wait time.Duration) {
	shelf := c.g.settings().shelf
	for i := range c.claims {
		cl := &c.claims[i]
		if s := cl.scope; s.counts(cl.cost) && !cl.slot.fresh(now, shelf) {
			if !cl.slot.at.After(now) {
				cl.slot = s.usage.take(s.limit, cl.cost, now, shelf)
			}
			wait = max(wait, cl.slot.at.Sub(now))
		}
	}
	return wait
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// back undoes the admission of a call that was not sent.
func (c *call) back() {
	c.g.locked(func(now time.Time) {
		if c.turn != nil {
			c.g.undo(c, now)
		}
		c.g.serve(now)
	})
}

// putSlots gives the slots of a call back, which was not sent.
func (c *call) putSlots(now time.Time) {
	for i := range c.claims {
		cl := &c.claims[i]
		if s := cl.scope; s.limit != nil {
			s.usage.put(s.limit, cl.slot, now, c.g.settings().shelf)
			c.g.wake(s, time.Time{}, now)
		}
		cl.slot = slot{}
	}
}

// spend makes the slots those of another request: this one may have been sent.
func (c *call) spend() {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	for i := range c.claims {
		c.claims[i].slot = slot{}
	}
}

// judge applies the answer to an attempt, or that there was none. The place of the call is freed by land.
func (c *call) judge(sig Signal, success bool, err error) {
	g := c.g
	g.locked(func(now time.Time) {
		c.attempts++
		g.stats.Sent++
		if sig.Limited {
			g.stats.Limited++
			c.last, success = err, false
		}
		if sig.Limited || sig.Pause > 0 {
			g.stop(c, sig, now)
		}
		if g.leaveRamp(c, success, now); success && c.current() {
			g.grow()
		}
		for i := range c.claims {
			c.claims[i].slot = slot{}
		}
		c.token, c.counted = false, true
		g.serve(now)
	})
}

// land frees the place of the call.
func (c *call) land() {
	c.g.locked(func(now time.Time) {
		c.g.land(c.turn)
		c.g.serve(now)
	})
}

// again prepares another attempt of a call that was refused, unless there are enough, or it would have to wait too long. The error is
// the one of a call that is not sent again.
func (c *call) again(n int) (err error) {
	g := c.g
	g.locked(func(now time.Time) {
		at, limit, ok := c.estimate(now)
		end := c.until(c.ctx, now)
		if n >= g.settings().MaxAttempts || !ok || !end.IsZero() && at.After(end) || c.ctx.Err() != nil {
			err = c.limited(at, limit)
			return
		}
		g.land(c.turn)
		if c.turn = nil; c.pool != nil && !c.pinned {
			c.pool.put(c)
		}
		g.serve(now)
	})
	return err
}

// hold begins a hold before the answer to an attempt is complete.
func (c *call) hold(sig Signal) {
	c.g.locked(func(now time.Time) {
		if sig.Limited {
			c.g.stop(c, sig, now)
			c.g.serve(now)
		}
	})
}

type callKey struct{ g *Gate }

// WithCall returns a context under which the requests of Transport, and calls of Do and Stream, have the keys and costs of
// the call. Other gates ignore it.
func (g *Gate) WithCall(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{g}, call)
}

// callOf returns the Call of WithCall.
func (g *Gate) callOf(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{g}).(Call)
	return c
}

type permitKey struct{ g *Gate }

// carry returns the context of a function that makes the call.
func (c *call) carry() context.Context {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.used, c.refused, c.counted = false, false, false
	return context.WithValue(c.ctx, permitKey{c.g}, c)
}

// enter returns the call that a request, or a call of Do, is. If the context carries a permit that is not used, it is that one, and
// own is false: its keys are added, and it passes the gate again if there are others than it had.
func (g *Gate) enter(ctx context.Context, r *http.Request, calls ...Call) (c *call, own bool, err error) {
	wants, err := g.settings().wants(r, calls...)
	if err != nil {
		return nil, false, err
	}
	if c, _ = ctx.Value(permitKey{g}).(*call); c != nil {
		adopted := false
		g.locked(func(now time.Time) {
			if adopted = !c.used && c.turn != nil; !adopted {
				return
			}
			c.used = true
			all := true
			for _, w := range wants {
				all = c.claim(scopeID{limit: w.limit.Name, key: w.key}, w.cost, now) && all
			}
			if c.putSlots(now); !all { // the others are taken when it is connected
				g.undo(c, now)
			}
			g.serve(now)
		})
		if adopted {
			return c, false, nil
		}
	}
	c, err = g.accept(ctx, wants)
	return c, true, err
}
