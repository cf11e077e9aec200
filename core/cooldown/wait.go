package cooldown

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/waitq"
)

// A waiter waits at a gate. It is guarded by the lock of the cooldown.
type waiter = waitq.Waiter[waiting]

type waiting struct {
	ctx      context.Context //nolint:containedctx // of the permit
	came     time.Duration
	deadline time.Duration // it is not admitted later
	permit   Permit        // if it was admitted
	err      error         // if it was rejected
	returned bool          // its goroutine has either of them
}

// enter is Acquire where something may be held.
func (c *Cooldown) enter(ctx context.Context, key string) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	p, g, w, err := c.join(ctx, key, waitq.Within(ctx, c.config().MaxWait))
	switch {
	case err != nil:
		return Permit{}, c.rejected(ctx, err, 0)
	case w == nil:
		return p, nil
	}
	return c.await(ctx, g, w)
}

// join admits a call, rejects it, or makes a waiter of it.
func (c *Cooldown) join(ctx context.Context, key string, most time.Duration) (Permit, *gate, *waiter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return Permit{}, nil, nil, errClosed
	}
	now := c.now()
	g := c.lookup(key, now)
	if g == nil {
		return c.permit(ctx, key), nil, nil, nil
	}
	c.serve(g, now)
	switch {
	case g.open(now): // so that the queue is empty
		return c.take(ctx, g, now), nil, nil, nil
	case most <= 0, g.until-now > most, g.queue.Len() >= c.config().MaxQueue:
		return Permit{}, nil, nil, g.refusal
	}
	w := g.queue.Push(waiting{ctx: ctx, came: now, deadline: saturated(now, most)}, 1)
	c.stats.Waiting++
	return Permit{}, g, w, nil
}

// await waits until w is admitted or rejected, or ctx ends.
func (c *Cooldown) await(ctx context.Context, g *gate, w *waiter) (Permit, error) {
	defer c.abandon(g, w) // also where the goroutine ends
	if err := w.Await(ctx, nil, func() (time.Duration, bool) { return c.look(g, w) }); err != nil {
		return Permit{}, err
	}
	waited := c.now() - w.Value.came
	if w.Value.err != nil {
		return Permit{}, c.rejected(ctx, w.Value.err, waited)
	}
	w.Value.permit.waited = max(1, waited)
	told := false
	defer func() {
		if !told { // an observer panicked: there is no call
			w.Value.permit.Done(core.Ignored)
		}
	}()
	c.emitCall(ctx, "call was held back", g.key, waited)
	told = true
	return w.Value.permit, nil
}

// look returns the time after which w has to look again, or that its wait is over.
func (c *Cooldown) look(g *gate, w *waiter) (wait time.Duration, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if w.Waiting() {
		c.serve(g, now)
	}
	if w.Waiting() && now >= w.Value.deadline {
		c.refuse(g, w, g.refusal)
	}
	if !w.Waiting() {
		w.Value.returned = true
		if w.Value.err == nil {
			c.stats.Waited++
		}
		return 0, true
	}
	at := w.Value.deadline
	if w == g.queue.First() {
		at = min(at, g.next(now, c.config().ProbeTimeout))
	}
	return at - now, false
}

// abandon ends a wait whose goroutine leaves before it has the result.
func (c *Cooldown) abandon(g *gate, w *waiter) {
	c.mu.Lock()
	if w.Value.returned {
		c.mu.Unlock()
		return
	}
	if w.Value.err == nil { // otherwise it is counted
		c.stats.Canceled++
	}
	if w.Waiting() {
		c.leave(g, w)
	}
	c.mu.Unlock()
	w.Value.permit.Done(core.Ignored)
}

// leave removes w from the queue. If another waiter is then the first, it looks again.
func (c *Cooldown) leave(g *gate, w *waiter) {
	first := w == g.queue.First()
	w.Leave()
	c.stats.Waiting--
	if first {
		g.wakeFirst()
	}
}

func (c *Cooldown) admit(g *gate, w *waiter, p Permit) {
	w.Value.permit = p
	c.leave(g, w)
}

func (c *Cooldown) refuse(g *gate, w *waiter, err error) {
	w.Value.err = err
	c.leave(g, w)
}

// serve admits the waiters of a gate that have room.
func (c *Cooldown) serve(g *gate, now time.Duration) {
	c.overdue(g, now)
	for g.queue.Len() > 0 && g.open(now) {
		w := g.queue.First()
		c.admit(g, w, c.take(w.Value.ctx, g, now))
	}
}

// rejected counts a rejection.
func (c *Cooldown) rejected(ctx context.Context, err error, waited time.Duration) error {
	if held, ok := err.(*HeldError); ok { //nolint:errorlint // it is not wrapped yet
		c.rejections.Add(1)
		c.emitCall(ctx, "call rejected, since the key is held", held.Key, waited)
	}
	return err
}
