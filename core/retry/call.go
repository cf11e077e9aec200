package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/jitter"
)

// A call is the state of one operation between its attempts. It stays on the stack of its goroutine.
type call struct {
	policy  *Policy
	cfg     *Config
	attempt int           // the number of the present or last attempt
	outer   int           // the number of the attempt of an outer retry, or 0
	started time.Duration // since policy.base; only if timed
	prev    time.Duration // the last delay of Backoff
	wait    time.Duration // the wait before the next attempt
	due     time.Duration // since policy.base: the end of the wait, unless wait is 0
	timed   bool
	source  int   // of wait, as in sources
	made    bool  // an attempt was made, and not rejected
	token   purse // of the retry that waits or runs
}

// begin begins a call. An error means that no attempt must be made.
func (p *Policy) begin(ctx context.Context) (c call, err error) {
	if ctx.Err() != nil {
		p.counters.failed[0].Add(1)
		return c, context.Cause(ctx)
	}
	c = call{policy: p, cfg: &p.life.Load().Config, attempt: 1}
	if f := p.changes(ctx); f != nil {
		changed := *c.cfg
		f(&changed)
		if err = changed.Validate(); err != nil {
			return c, err
		}
		c.cfg = &changed
	}
	c.outer, _ = ctx.Value(attemptKey{}).(int)
	if c.timed = c.cfg.MaxElapsed > 0 || p.life.Calls(); c.timed {
		c.started = p.now()
	}
	return c, nil
}

// context returns the context of the attempt.
func (c *call) context(ctx context.Context) context.Context {
	if c.attempt == 1 && c.outer <= 1 {
		return ctx
	}
	return context.WithValue(ctx, attemptKey{}, c.attempt)
}

// known returns the reason against a retry if it does not depend on the user's functions, or "".
func (c *call) known(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return canceled
	case err == nil:
	case errors.Is(err, core.ErrRejected) && (!c.cfg.RetryRejected || blame.Hopeless(err)):
		return rejected
	case blame.Permanent(err) || blame.Hopeless(err):
		return permanent
	}
	return ""
}

func (c *call) succeeded(ctx context.Context) {
	c.pay()
	if c.attempt == 1 {
		c.policy.counters.succeeded.Inc()
		return
	}
	c.policy.counters.recovered.Add(1)
	c.emit(ctx, "retry succeeded", nil)
}

// next counts an attempt that failed with r.Err or r.Result, and decides whether there is another one. If so, it announces it and returns
// "", otherwise the reason.
func (c *call) next(ctx context.Context, asks Decision, why string, r Retry) string {
	made := why != rejected && asks.Not != rejected && !errors.Is(r.Err, core.ErrRejected)
	if made {
		c.pay()
		c.made, c.token = true, noPurse
	} else {
		c.putBack() // this retry was not made
	}
	told := asks.After
	if after, ok := core.RetryAfter(r.Err); ok {
		told = max(told, after)
	}
	left := c.attempt < c.cfg.maxAttempts()
	c.wait = 0
	switch {
	case why != "":
	case ctx.Err() != nil:
		why = canceled
	case !asks.Retry:
		why = permanent
	case asks.Not == rejected:
		why = rejected
	case !left:
		why = exhausted
	case asks.Not != "":
		why = asks.Not
	case told > c.cfg.maxRetryAfter():
		why = tooLong
	case !c.plan(ctx, told):
		why = deadline
	case c.cfg.Budget != nil:
		if c.token = c.cfg.Budget.take(); c.token == noPurse {
			why = overBudget
		}
	}
	if why != "" {
		c.failed(ctx, why, left, r.Err)
		return why
	}
	c.policy.counters.waits[c.source].Observe(c.wait)
	c.emit(ctx, "attempt failed, a retry follows", r.Err)
	if f := c.cfg.OnRetry; f != nil {
		r.Name, r.Attempt, r.Wait = c.policy.Name(), c.attempt+1, c.wait
		f(ctx, r)
	}
	return ""
}

// plan sets the wait, and reports whether it ends before MaxElapsed and the deadline of ctx. The part of the wait above the one that was
// asked for, or that of Backoff, is jitter: if only the jitter would exceed the time that is left, it is reduced to fit.
func (c *call) plan(ctx context.Context, told time.Duration) bool {
	strategy := c.cfg.backoff()
	drawn := max(0, strategy.Next(c.attempt, c.prev))
	c.wait, c.source = jitter.Above(told, strategy, c.attempt, c.prev, drawn), 0
	if told > drawn {
		c.source = 1
	}
	least := max(told, drawn)
	c.prev = drawn
	end, ok := ctx.Deadline()
	if c.wait == 0 && !ok && c.cfg.MaxElapsed == 0 {
		return true // the clock is not read
	}
	now, left := c.policy.now(), time.Duration(math.MaxInt64)
	if ok {
		left = time.Until(end)
	}
	if c.cfg.MaxElapsed > 0 {
		left = min(left, c.cfg.MaxElapsed-(now-c.started))
	}
	if room := left - least; c.wait >= left && room > 0 {
		c.wait = least + (c.wait-least)%room
	}
	c.due = now + min(c.wait, math.MaxInt64-max(0, now))
	return left > 0 && c.wait < left
}

// sleep waits for the next attempt. It returns the error of the call if the context ends before that.
func (c *call) sleep(ctx context.Context, err error) error {
	if c.wait > 0 {
		timer := time.NewTimer(c.due - c.policy.now())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		c.attempt++
		c.policy.counters.retries.Add(1)
		return nil
	}
	c.putBack()
	c.failed(ctx, canceled, true, err)
	return &Error{Name: c.policy.Name(), Attempts: c.attempt, Reason: canceled, Err: ended(context.Cause(ctx), c.shown(err))}
}

// error returns the error for the caller.
func (c *call) error(why string, err error) error {
	if c.attempt == 1 {
		return err
	}
	return &Error{Name: c.policy.Name(), Attempts: c.attempt, Reason: why, Err: c.shown(err)}
}

// shown returns an error that matches core.ErrRejected only if all attempts were rejected.
func (c *call) shown(err error) error {
	if !c.made || !errors.Is(err, core.ErrRejected) {
		return err
	}
	if _, asks := core.RetryAfter(err); asks || blame.Hopeless(err) {
		return lateWaitError{lateError{err}}
	}
	return lateError{err}
}

// pay pays into the budget, once for a call, unless the call is part of an outer retry.
func (c *call) pay() {
	if b := c.cfg.Budget; b != nil && !c.made && c.outer <= 1 {
		b.pay()
	}
}

// putBack puts back the token of a retry that is not made.
func (c *call) putBack() {
	if c.token != noPurse {
		c.cfg.Budget.putBack(c.token)
		c.token = noPurse
	}
}
