package bulkhead

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/waitq"
)

// A waiter waits for permits. It is guarded by the lock of its cell.
type waiter = waitq.Waiter[waiting]

type waiting struct {
	ctx      context.Context //nolint:containedctx // of the permit
	came     time.Duration
	deadline time.Duration
	permit   Permit // if it was admitted
	err      error  // if it was rejected
	returned bool   // its goroutine has either of them
}

// join admits a call, rejects it, or makes a waiter of it. If the cell was forgotten, it
// returns nothing at all.
func (c *cell) join(ctx context.Context, n int) (p Permit, w *waiter, err error) {
	b := c.bulkhead
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := b.config()
	switch {
	case b.closed.Load():
		return p, nil, errClosed
	case c.gone:
		return p, nil, nil
	case n > cfg.limit():
		return p, nil, c.never(n)
	}
	waits, ended := cfg.MaxQueue >= 0, ctx.Err() != nil
	if c.queue.Len() == 0 || cfg.NewestFirst {
		if c.admit(n, waits && !ended) {
			return Permit{cell: c, ctx: ctx, generation: c.generation.Load(), weight: int32(n)}, nil, nil
		}
	}
	switch {
	case !waits:
		return p, nil, c.refusal()
	case ended:
		return p, nil, context.Cause(ctx)
	case c.queue.Len()+c.parked >= cfg.maxQueue() && !cfg.NewestFirst:
		return p, nil, c.refusal()
	case c.queue.Len() >= cfg.maxQueue():
		c.refuse(c.queue.Oldest(), c.refusal())
	}
	now := b.now()
	if c.queue.Len() == 0 {
		c.served = now
	}
	deadline := min(cfg.maxWait(), 1<<62) + now
	return p, c.queue.Push(waiting{ctx: ctx, came: now, deadline: deadline}, int64(n)), nil
}

// await waits until w is admitted or rejected, or ctx ends.
func (c *cell) await(ctx context.Context, w *waiter) (Permit, error) {
	b := c.bulkhead
	defer c.abandon(w) // also where the goroutine ends
	if err := w.Await(ctx, nil, func() (time.Duration, bool) { return c.look(w) }); err != nil {
		return Permit{}, err
	}
	waited := max(1, b.now()-w.Value.came)
	if w.Value.err != nil {
		return Permit{}, b.rejected(ctx, c.key, int(w.Weight), waited, w.Value.err)
	}
	if b.table != nil {
		return c.share(ctx, w.Value.permit, w.Value.came, true)
	}
	return c.admittedAfter(ctx, w.Value.permit, waited)
}

// admittedAfter counts a call that has waited.
func (c *cell) admittedAfter(ctx context.Context, p Permit, waited time.Duration) (Permit, error) {
	b := c.bulkhead
	b.waited.Add(1)
	b.waits.Observe(waited)
	returned := false
	defer func() {
		if !returned { // an observer panicked: there is no call
			p.Done(core.Ignored)
		}
	}()
	b.emitCall(ctx, "call waited for its permits", c.key, int(p.weight), waited)
	returned = true
	return p, nil
}

// look returns the time that is left for w, or that its wait is over.
func (c *cell) look(w *waiter) (left time.Duration, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left = w.Value.deadline - c.bulkhead.now()
	if w.Waiting() && left <= 0 {
		c.refuse(w, c.refusal())
		c.serve() // it may have blocked others
	}
	w.Value.returned = !w.Waiting()
	return left, w.Value.returned
}

// abandon ends a wait whose goroutine leaves before it has the result.
func (c *cell) abandon(w *waiter) {
	b := c.bulkhead
	c.mu.Lock()
	if w.Value.returned {
		c.mu.Unlock()
		return
	}
	b.canceled.Add(1)
	switch {
	case w.Waiting():
		w.Leave()
		c.serve()
	case w.Value.err == nil:
		if c.admitted--; b.table != nil { // there is no call
			c.asking--
		}
	}
	c.mu.Unlock()
	w.Value.permit.Done(core.Ignored)
}
