package pace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/validate"
)

// A call waits for a permit. It belongs to one goroutine.
type call struct {
	p      *Pacer
	ctx    context.Context //nolint:containedctx // the caller's
	set    *setting
	key    string
	n      int64
	start  time.Time
	waited bool
	lead   time.Duration // the wait ends this much before the slot

	replaced <-chan struct{} // closed when the rates of its permit are replaced
}

// end counts the call and calls its hook.
func (c *call) end(permit Permit, err error) (Permit, error) {
	p, h := c.p, c.p.life.Hooks()
	switch {
	case err != nil:
		p.rejected.Add(1)
		if h.Rejected != nil {
			p.call(c.ctx, h.Rejected, Info{Key: c.key, Cost: c.n, Waited: time.Since(c.start), Err: err})
		}
		return Permit{}, err
	case c.waited:
		p.waited.Add(1)
		if h.Waited != nil {
			p.call(c.ctx, h.Waited, Info{Key: c.key, Cost: c.n, Waited: time.Since(c.start)})
		}
	}
	p.granted.Inc()
	return permit, nil
}

// check returns the error of a call that cannot be made.
func (c *call) check() error {
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case c.p.closed.Load():
		return ErrClosed
	case c.n < 1 || c.n > c.set.capacity:
		return c.tooMuch()
	}
	return nil
}

func (c *call) tooMuch() error {
	remedy := "the Calls of the lowest rate"
	if c.set.Mode == Rolling {
		remedy = "the smallest Burst of the Rates, which can be set higher"
	}
	return validate.Bad("pace cost", c.n, fmt.Sprintf("must be 1 to %d, %s", c.set.capacity, remedy))
}

// limited is the error of a permit that comes too late.
func (c *call) limited(at time.Time) error { return &LimitedError{Name: c.p.Name(), At: at} }

// deadline returns the time at which the wait must be over, or false.
func (c *call) deadline() (time.Time, bool) {
	at, ok := c.ctx.Deadline()
	if limit := c.start.Add(c.set.MaxWait); c.set.MaxWait < never && (!ok || limit.Before(at)) {
		return limit, true
	}
	return at, ok
}

// wait gets a turn in the lane of the key, reserves a slot, and waits for it.
func (c *call) wait() (Permit, error) {
	if err := c.check(); err != nil {
		return Permit{}, err
	}
	p := c.p
	l := p.enter(c.key)
	defer p.leave(l)
	turn, err := c.turn(l)
	if err != nil {
		return Permit{}, err
	}
	var unused *Permit
	defer func() { c.pass(l, unused) }() // also if the store panics
	deadline, limited := c.deadline()
	for {
		permit, retry := turn.permit, time.Time{}
		if turn.permit = (Permit{}); permit.Cost == 0 {
			most := never
			if limited {
				most = max(0, time.Until(deadline))
			}
			if permit, retry, err = c.slot(l, most); err != nil {
				return Permit{}, err
			}
		}
		at := permit.At
		if !retry.IsZero() {
			at = retry
		} else {
			unused = &permit
		}
		if limited && at.After(deadline) {
			return Permit{}, c.limited(at)
		}
		if retry.IsZero() {
			at = at.Add(-c.lead)
		}
		p.hold(l, &permit)
		again, err := c.sleep(at)
		if !p.release(l, &permit) {
			again, unused = true, nil
		}
		if err != nil {
			return Permit{}, err
		} else if again {
			retry = at
		}
		unused = nil
		if !retry.IsZero() {
			continue
		}
		now := time.Now()
		if !permit.staleAt(now) {
			return permit, nil
		}
		p.giveUp(c.ctx, c.key, &permit, now)
	}
}

// giveUp counts a stale permit.
func (p *Pacer) giveUp(ctx context.Context, key string, permit *Permit, now time.Time) {
	p.stale.Add(1)
	if h := p.life.Hooks(); h.Stale != nil {
		p.call(ctx, h.Stale, Info{Key: key, Cost: permit.Cost, Late: now.Sub(permit.NotAfter)})
	}
}

// reserve gets a permit without waiting.
func (c *call) reserve() (Permit, error) {
	if err := c.check(); err != nil {
		return Permit{}, err
	}
	l := c.p.enter(c.key)
	defer c.p.leave(l)
	if permit, ok := c.p.spare(l, c.n); ok {
		return permit, nil
	}
	permit, retry, err := c.slot(l, c.set.MaxWait)
	if err == nil && !retry.IsZero() {
		err = c.limited(retry)
	}
	return permit, err
}

// soon waits for a slot that comes within a time, ahead of the calls that wait.
func (c *call) soon(most time.Duration) (Permit, bool) {
	if c.check() != nil {
		return Permit{}, false
	}
	l := c.p.enter(c.key)
	defer c.p.leave(l)
	permit, retry, err := c.slot(l, most)
	if err != nil || !retry.IsZero() || time.Until(permit.At) > most {
		return Permit{}, false
	}
	replaced, err := c.sleep(permit.At)
	if err != nil || replaced {
		return Permit{}, false
	}
	if now := time.Now(); permit.staleAt(now) {
		c.p.giveUp(c.ctx, c.key, &permit, now)
		return Permit{}, false
	}
	return permit, true
}

// sleep waits until a time, or until the rates are replaced.
func (c *call) sleep(at time.Time) (replaced bool, err error) {
	wait := time.Until(at)
	if wait <= 0 {
		return false, nil
	}
	c.waited = true
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, nil
	case <-c.replaced:
		return true, nil
	case <-c.ctx.Done():
		return false, context.Cause(c.ctx)
	case <-c.p.done:
		return false, ErrClosed
	}
}

// maxLate is the number of replies in a row that may take longer than the shelf life.
const maxLate = 5

// slot reserves a slot in the store, and another one if the reply came too late for it. If none can
// be used now, retry is the time at which to try again.
func (c *call) slot(l *lane, most time.Duration) (permit Permit, retry time.Time, err error) {
	for range maxLate {
		permit, retry, err = c.ask(l, most)
		if err != nil || !retry.IsZero() || !permit.staleAt(permit.At) {
			return permit, retry, err
		}
		c.p.giveUp(c.ctx, c.key, &permit, permit.At)
	}
	return Permit{}, retry, c.slow(permit.At.Sub(permit.NotAfter) + c.set.Slack)
}

// ask reserves a slot in the store.
func (c *call) ask(l *lane, most time.Duration) (permit Permit, retry time.Time, err error) {
	p := c.p
	last, ahead := c.lastOf(l)
	before := time.Now()
	r, err := p.limiter.Reserve(c.ctx, c.key, c.n, most)
	after := time.Now()
	switch {
	case errors.Is(err, core.ErrClosed):
		return permit, retry, ErrClosed
	case err != nil:
		return permit, retry, p.explain(err)
	case !r.Allowed && r.RetryAfter == limits.Never: // the rate was lowered
		return permit, retry, c.tooMuch()
	case !r.Allowed: // nothing can be reserved that far ahead, or later than most
		return permit, after.Add(r.RetryAfter), nil
	case r.Limit == 0: // the store failed, and OnStoreError allows the call
		return Permit{At: after, Cost: c.n}, retry, nil
	}
	if drift := after.Sub(last.Add(-ahead)) / 1024; !p.memory && after.Add(r.Wait+drift).Before(last) { // the store has lost its state, and with it slots of all processes
		p.lost.Add(1)
		return permit, after.Add(ahead), nil
	}
	p.reserved(l, c.set, before, after.Sub(before), r.Wait)
	permit = Permit{At: after.Add(r.Wait), NotAfter: before.Add(r.Wait + c.set.Slack - tick), Cost: c.n}
	if c.set.Mode == FixedWindow {
		if permit, retry = c.windowed(&r, before, after); !retry.IsZero() {
			p.stale.Add(1)
		}
	}
	permit.take = &r
	return permit, retry, nil
}

// tick is the most by which a store rounds the time of a slot up.
const tick = time.Microsecond
