package gate

import (
	"context"
	"time"
)

// A Permit allows one call. End it by Done or Cancel.
type Permit struct {
	// At is the time of the slots of the call. A hold that begins later can delay it.
	At time.Time
	c  *call
}

// Wait waits until a call may be sent, and returns its permit: make the call at once, and then call [Permit.Done]. The
// error is a [*LimitedError], [ErrFull], [ErrClosed] or the cause of ctx.
func (g *Gate) Wait(ctx context.Context, call Call) (*Permit, error) {
	p, err := g.permit(ctx, call)
	if err != nil {
		return nil, err
	}
	if err = p.c.sendable(ctx, true, nil); err != nil {
		p.c.end()
		return nil, err
	}
	p.At = p.c.turn.at
	return p, nil
}

// Reserve returns a permit for the earliest slots of a call, without waiting for them: before the calls that wait. Wait for it later
// by [Permit.Wait]. The errors are those of Wait. MaxWait limits Permit.At; the deadline of ctx does not.
func (g *Gate) Reserve(ctx context.Context, call Call) (*Permit, error) {
	p, err := g.permit(ctx, call)
	if err != nil {
		return nil, err
	}
	g.locked(func(now time.Time) { err = p.book(now) })
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Cancel()
		return nil, err
	}
	return p, nil
}

func (g *Gate) permit(ctx context.Context, call Call) (*Permit, error) {
	wants, err := g.settings().wants(nil, call, g.callOf(ctx))
	if err != nil {
		return nil, err
	}
	c, err := g.accept(context.WithoutCancel(ctx), wants)
	return &Permit{c: c}, err
}

// book takes the slots of the limits that decide when the call can be sent. Those of the others are taken when it is: until then they
// are for other calls.
func (p *Permit) book(now time.Time) error {
	c, g, set := p.c, p.c.g, p.c.g.settings()
	if len(g.calls)-g.flying > set.MaxQueue {
		return ErrFull
	}
	own := make([]time.Time, len(c.claims))
	p.At = now
	limit := ""
	for i, cl := range c.claims {
		held, _ := cl.scope.held(now)
		if own[i] = later(held, now); cl.scope.counts(cl.cost) {
			own[i], _ = cl.scope.usage.next(cl.scope.limit, cl.cost, own[i], set.shelf)
		}
		if own[i].After(p.At) {
			p.At, limit = own[i], cl.scope.id.limit
		}
	}
	if set.MaxWait != 0 && p.At.Sub(now) > max(0, set.MaxWait) {
		return c.limited(p.At, limit)
	}
	for i := range c.claims {
		cl := &c.claims[i]
		if s := cl.scope; s.counts(cl.cost) && p.At.Sub(own[i]) < set.shelf/2 {
			cl.slot = s.usage.take(s.limit, cl.cost, own[i], set.shelf)
			s.usage.pace = later(s.usage.pace, s.usage.tail)
		}
	}
	return nil
}

// Wait waits until the call may be made, right before it is: for At, the end of holds, its turn, and a place in flight. If
// its slots are too old, it takes other ones. It can be called again, as after a dial: while the permit is still good, it
// returns at once. The errors are those of [Gate.Wait].
func (p *Permit) Wait(ctx context.Context) error {
	if wait := time.Until(p.At); wait > 0 && !sleep(ctx, wait) {
		return context.Cause(ctx)
	}
	return p.c.sendable(ctx, true, nil)
}

// Done ends a call that was made. Its error is classified (Config.Classify), so that a refusal begins a hold; the permit
// is not good for another attempt.
func (p *Permit) Done(err error) {
	c, sig := p.c, Signal{}
	if err != nil && answer(err) {
		sig = c.g.settings().Classify(nil, err)
	}
	if !c.ended() {
		c.judge(sig, answer(err), err)
	}
	c.end()
}

// Cancel ends a permit whose call was not made. Slots that others can still use are given back. After Done, it does
// nothing.
func (p *Permit) Cancel() {
	c := p.c
	c.g.locked(func(now time.Time) {
		if _, ok := c.g.calls[c]; ok {
			c.g.undo(c, now)
		}
	})
	c.end()
}

func (c *call) ended() bool {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	_, ok := c.g.calls[c]
	return !ok
}
