package gate

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
)

// A Permit allows one call. End it with Done or Cancel.
type Permit struct {
	// At is the time of the slots of the call. A hold that begins later can delay it.
	At    time.Time
	c     *call
	early time.Duration // before At it asks whether it can be sent
}

// Wait waits until a call may be sent, and returns its permit: make the call at once, and then call [Permit.Done]. The
// error is a [*LimitedError], [ErrFull], [ErrClosed], [ErrStore] or the cause of ctx.
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

// Reserve returns a permit for the earliest slots of a call, without waiting for them. It goes ahead of the calls that wait. Call
// [Permit.Wait] before the call. The errors are those of Wait. MaxWait limits Permit.At; the deadline of ctx does not.
func (g *Gate) Reserve(ctx context.Context, call Call) (*Permit, error) {
	p, err := g.permit(ctx, call)
	if err != nil {
		return nil, err
	}
	if err = p.book(); err == nil {
		p.c.seq -= unreserved
		err = context.Cause(ctx)
	}
	if err != nil {
		p.Cancel()
		return nil, err
	}
	return p, nil
}

func (g *Gate) permit(ctx context.Context, call Call) (*Permit, error) {
	wants, err := g.settings().wants(nil, append([]Call{call}, g.carried(ctx).all()...))
	if err != nil {
		return nil, err
	}
	c, err := g.accept(context.WithoutCancel(ctx), wants)
	return &Permit{c: c}, err
}

// book takes the slots of the limits that decide when the call can be sent. Slots of other limits are taken when it is sent: until then,
// other calls can use them.
func (p *Permit) book() error {
	c, g := p.c, p.c.g
	unlock := g.lock()
	defer func() { unlock() }()
	most, limit := g.settings().MaxWait, ""
	if n := g.settings().MaxQueue; len(g.calls)-g.flying > n && g.unsent(c.background) > n {
		return ErrFull
	}
	for g.byStore() {
		if g.urgent > 0 && g.failed == nil {
			unlock()
			ok := c.sleep(c.ctx, time.Millisecond, nil)
			if unlock = g.lock(); !ok {
				return context.Cause(c.ctx)
			}
			continue
		}
		ask := g.askFor(gatestore.Reserve)
		ask.Groups = []gatestore.Group{{Calls: 1, Draws: g.drawsOf(c)}}
		if ask.Ahead = max(most, ask.Ahead); most == 0 {
			ask.Ahead = longestSpan
		}
		unlock()
		grant, ok, again := g.pass(ask)
		unlock = again
		switch {
		case !ok && g.byStore():
			return g.storeError(c.limited(g.now, ""))
		case !ok:
		case len(grant.Answers[0].Slots) == 0:
			answer := grant.Answers[0]
			return c.limited(g.now.Add(answer.Again), c.claims[answer.Draw].Limit)
		default:
			if of := g.granted(grant.Answers[0].Slots[0], ask.Groups[0].Draws); c.took(of) {
				p.At, p.early = of.at, 2*g.trip
				return nil
			}
		}
	}
	p.At = g.now
	for _, cl := range c.claims {
		if at := c.free(cl); at.After(p.At) {
			p.At, limit = at, cl.Limit
		}
	}
	if most != 0 && p.At.Sub(g.now) > max(0, most) {
		return c.limited(p.At, limit)
	}
	for _, cl := range c.claims {
		if at := c.free(cl); cl.counts() && p.At.Sub(at) < cl.shelf/2 {
			cl.slot = cl.take(cl.cost, at)
			cl.pace = later(cl.pace, cl.tail)
		}
	}
	return nil
}

// unsent counts the calls that wait, and the permits of Reserve that have not been admitted. Not counted, though they have no place in
// flight either: functions whose response was read, and streams between two pages. Background calls count for others of them only.
func (g *Gate) unsent(background bool) (n int) {
	for c := range g.calls {
		if c.turn == nil && (c.queue != nil || c.attempts == 0) && (background || !c.background) {
			n++
		}
	}
	return n
}

// Wait waits until the call may be made: for At, the end of holds, its turn, and a place in flight. Call it right
// before the call. If the slots are too old, it takes others. It can be called again, such as after a dial: while the
// permit is still good, it returns at once. The errors are those of [Gate.Wait].
func (p *Permit) Wait(ctx context.Context) error {
	p.c.sleep(ctx, time.Until(p.At)-p.early, nil)
	return p.c.sendable(ctx, true, nil)
}

// Done ends a call that was made. err is classified (Config.Classify), so that a refusal begins a hold. The permit
// cannot be used for another attempt.
func (p *Permit) Done(err error) {
	p.c.judge(p.c.classify(err), answer(err), err)
	p.c.end()
}

// Cancel ends a permit whose call was not made. Slots that other calls can still use are given back. After Done, it
// does nothing.
func (p *Permit) Cancel() {
	p.c.back()
	p.c.end()
}
