package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// A lease is the context of a call whose permits are in the Store too.
type lease struct {
	context.Context //nolint:containedctx // it is one

	cell    *cell
	call    context.Context //nolint:containedctx // that the call was admitted with
	weight  int
	cancel  context.CancelCauseFunc
	release func() // nil if the Store failed and the policy is Local
	over    atomic.Bool
}

// share takes the permits of a call in the Store, after those of the process.
func (c *cell) share(ctx context.Context, p Permit, came time.Duration, waited bool) (Permit, error) {
	b, parked := c.bulkhead, 0
	l := &lease{cell: c, call: ctx, weight: int(p.weight)}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	admitted := false
	defer func() { // also where the Store panics, or an observer
		if c.unpark(parked, l.weight, admitted); !admitted {
			p.Done(core.Ignored)
			l.cancel(nil)
		}
	}()
	asking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(b.ended, func() { stop(errClosed) })() //nolint:contextcheck // that of the bulkhead
	r := Request{Key: c.key, Weight: l.weight, Limit: func() int { return b.config().limit() }, Lost: l.lost}
	var err error
	if l.release, err = b.table.Acquire(asking, r); errors.Is(err, ErrFull) {
		b.recovered(l)
		if r.Wait, err = c.park(ctx, l.weight, came); err == nil {
			waited, parked = true, 1
			l.release, err = b.table.Acquire(asking, r)
		}
	}
	if p.ctx = l; err != nil {
		err = c.unshared(ctx, asking, l, err)
	} else {
		b.recovered(l)
	}
	after := max(1, b.now()-came)
	switch admitted = err == nil; {
	case err != nil:
		return Permit{}, b.rejected(ctx, c.key, l.weight, after, err)
	case waited:
		return c.admittedAfter(ctx, p, after)
	}
	return p, nil
}

// park returns the time that a call can wait for the Store. It then counts as waiting.
func (c *cell) park(ctx context.Context, weight int, came time.Duration) (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := c.bulkhead.config()
	left := min(cfg.maxWait(), 1<<62) + came - c.bulkhead.now()
	switch {
	case cfg.MaxQueue < 0, c.queue.Len()+c.parked >= cfg.maxQueue(), left <= 0:
		return 0, c.refusal()
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	}
	c.parked++
	c.parkedWeight += weight
	return left, nil
}

// unpark ends the question of a call to the Store, and its wait if it waited.
func (c *cell) unpark(parked, weight int, admitted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking--
	c.parked -= parked
	c.parkedWeight -= parked * weight
	if !admitted {
		c.admitted-- // there is no call
	}
}

// unshared returns the error of a call whose permits are not in the Store. It is nil if the
// Store has failed and OnStoreError admits the call.
func (c *cell) unshared(ctx, asking context.Context, l *lease, err error) error {
	b := c.bulkhead
	var full *FullError
	switch {
	case errors.As(err, &full):
		return full
	case errors.Is(err, ErrFull) && l.weight > b.config().limit():
		return c.never(l.weight)
	case errors.Is(err, ErrFull):
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.refusal()
	case blame.EndedBy(asking, err):
		return context.Cause(asking)
	}
	b.storeErrors.Add(1)
	if !b.failing.Swap(true) {
		b.emitOutage(ctx, c.key, err)
	}
	if b.config().OnStoreError == Local {
		return nil
	}
	return &storeError{b.Name(), err}
}

// recovered notes that the Store has decided.
func (b *Bulkhead) recovered(l *lease) {
	if b.failing.Load() && b.failing.Swap(false) {
		b.emitOutage(l.call, l.cell.key, nil)
	}
}

// lost ends the context of a call that has lost its permits.
func (l *lease) lost(err error) {
	b := l.cell.bulkhead
	if err != nil && b.config().OnStoreError == Local || l.over.Swap(true) {
		return
	}
	cause := ErrLost
	if err != nil {
		cause = fmt.Errorf("%w: %w", ErrLost, err)
	}
	l.cancel(cause)
	b.lost.Add(1)
	b.emitLost(l.call, l.cell.key, l.weight, err)
}

// end returns the permits in the Store.
func (l *lease) end() {
	l.over.Store(true)
	if l.release != nil {
		l.release()
	}
	l.cancel(nil)
}
