package cooldown

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/gresil/gresil/core"
)

// A waiter waits at a gate. It is guarded by the lock of the cooldown.
type waiter struct {
	ctx      context.Context //nolint:containedctx // of the permit
	place    *list.Element   // nil when it is not in the queue any more
	came     time.Duration
	deadline time.Duration // it is not admitted later
	permit   Permit        // if it was admitted
	err      error         // if it was not
	returned bool          // its goroutine has either of them
	wake     chan struct{} // of one place: something has changed
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it is told already
	}
}

// enter is Acquire where something may be held.
func (c *Cooldown) enter(ctx context.Context, key string) (Permit, error) {
	if ctx.Err() != nil {
		return Permit{}, context.Cause(ctx)
	}
	most := c.cfg.Load().maxWait()
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	p, g, w, err := c.join(ctx, key, most)
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
		return Permit{}, nil, nil, ErrClosed
	}
	now := c.now()
	g := c.lookup(key, now)
	if g == nil {
		return c.permit(ctx, key), nil, nil, nil
	}
	c.serve(g, now)
	switch {
	case g.open(now): // so that nobody waits any more
		return c.take(ctx, g, now), nil, nil, nil
	case most <= 0, g.until-now > most, g.queue.Len() >= c.cfg.Load().maxQueue():
		return Permit{}, nil, nil, g.refusal
	}
	w := &waiter{ctx: ctx, came: now, deadline: saturated(now, most), wake: make(chan struct{}, 1)}
	w.place = g.queue.PushBack(w)
	c.stats.Waiting++
	return Permit{}, g, w, nil
}

// await waits until w is admitted or rejected, or ctx ends.
func (c *Cooldown) await(ctx context.Context, g *gate, w *waiter) (Permit, error) {
	defer c.abandon(g, w) // also where the goroutine ends
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, over := c.look(g, w)
		if over {
			break
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
			return Permit{}, context.Cause(ctx)
		}
	}
	waited := c.now() - w.came
	if w.err != nil {
		return Permit{}, c.rejected(ctx, w.err, waited)
	}
	w.permit.waited = max(1, waited)
	told := false
	defer func() {
		if !told { // the hook ended the goroutine, so there is no call
			w.permit.Done(core.Ignored)
		}
	}()
	c.tell(ctx, c.hooks.Load().Waited, g.key, time.Time{}, waited)
	told = true
	return w.permit, nil
}

// look tells how long w is to sleep before it looks again, or that it is over.
func (c *Cooldown) look(g *gate, w *waiter) (wait time.Duration, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if w.place != nil {
		c.serve(g, now)
	}
	if w.place != nil && now >= w.deadline {
		c.refuse(g, w, g.refusal)
	}
	if w.place == nil {
		w.returned = true
		if w.err == nil {
			c.stats.Waited++
		}
		return 0, true
	}
	at := w.deadline
	if w.place == g.queue.Front() {
		at = min(at, g.next(now, c.cfg.Load().probeTimeout()))
	}
	return at - now, false
}

// abandon ends a wait whose goroutine leaves before it knows how it ended.
func (c *Cooldown) abandon(g *gate, w *waiter) {
	c.mu.Lock()
	if w.returned {
		c.mu.Unlock()
		return
	}
	if w.err == nil { // else it is counted
		c.stats.Canceled++
	}
	if w.place != nil {
		c.leave(g, w)
	}
	c.mu.Unlock()
	w.permit.Done(core.Ignored)
}

// leave takes w out of the queue. Another one that is the first then has to look when
// its time is.
func (c *Cooldown) leave(g *gate, w *waiter) {
	was := g.queue.Front()
	g.queue.Remove(w.place)
	w.place = nil
	c.stats.Waiting--
	if first := g.queue.Front(); first != was {
		g.wakeFirst()
	}
}

func (c *Cooldown) admit(g *gate, w *waiter, p Permit) {
	w.permit = p
	c.leave(g, w)
	w.signal()
}

func (c *Cooldown) refuse(g *gate, w *waiter, err error) {
	w.err = err
	if errors.Is(err, ErrClosed) {
		c.stats.Canceled++
	}
	c.leave(g, w)
	w.signal()
}

// serve admits those at a gate who have room.
func (c *Cooldown) serve(g *gate, now time.Duration) {
	c.overdue(g, now)
	for g.queue.Len() > 0 && g.open(now) {
		w := g.first()
		c.admit(g, w, c.take(w.ctx, g, now))
	}
}

// rejected counts and tells of a rejection.
func (c *Cooldown) rejected(ctx context.Context, err error, waited time.Duration) error {
	if held, ok := err.(*HeldError); ok { //nolint:errorlint // it is not wrapped yet
		c.rejections.Add(1)
		c.tell(ctx, c.hooks.Load().Rejected, held.Key, held.until, waited)
	}
	return err
}
