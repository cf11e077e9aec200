package dispatch

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// judge ends an attempt with the error of the user's function. It reports whether the
// attempt must be repeated, and otherwise returns the error of the call. An error can be an
// answer of the vendor, or not. since is when the answer came, and for an error of Dial when that began; if zero, it is now.
func (c *call[K, C]) judge(err error, answered bool, since time.Time) (again bool, _ error) {
	cfg, d := c.d.config(), c.d
	limit, limited := Limited{}, false
	if err != nil && !c.ended(err) {
		limit, limited = cfg.Classify(err)
	}
	if e, ok := err.(*StatusError); ok && !limited && !since.IsZero() && e.StatusCode < http.StatusInternalServerError { //nolint:errorlint // that of RoundTripper itself
		err = nil // a response as any other
	}
	n := d.attempts.Add(1)
	switch {
	case limited:
		d.limited.Add(1)
		until := c.hold(cfg, limit, since)
		if c.limited++; int(c.limited) < cfg.Attempts {
			return true, nil
		}
		c.giveUp(err)
		return false, &GaveUpError{Name: d.Name(), Attempts: int(c.limited), Err: err, until: until}
	case err != nil && c.Err() != nil:
		c.step(core.Ignored, core.Ignored)
		c.end = canceled
		if c.parent.Err() == nil && !blame.Has[*cutError](err) { // Close has canceled the call
			err = &cutError{err}
		}
		return false, err
	}
	vendor, place := core.Success, core.Ignored // any answer shows that the vendor answers again
	if !answered {
		vendor = core.Ignored
	}
	if err != nil {
		c.end = failed
	} else if c.end = succeeded; answered && n%growth == 0 {
		place = core.Success
	}
	c.step(vendor, place)
	return false, err
}

// giveUp ends the call with the vendor's refusal.
func (c *call[K, C]) giveUp(err error) {
	c.end = gaveUp
	if f := c.d.life.Hooks().GaveUp; f != nil {
		c.d.call(c.parent, f, Info{Key: c.key, Attempts: int(c.limited), Err: err})
	}
}

// ended reports whether err comes from the end of the context, not from the vendor.
func (c *call[K, C]) ended(err error) bool {
	return c.Err() != nil && (errors.Is(err, c.Err()) || errors.Is(err, context.Cause(c)))
}

// pause returns how long a limit holds from its answer on.
func (c *Config[K, C]) pause(limit Limited) time.Duration {
	wait := limit.RetryAfter
	if wait <= 0 {
		wait = c.Cooldown
	}
	return min(wait, c.MaxCooldown) + c.Pad
}

// holdEarly begins a cooldown by the header of a response whose body is slow, since for the
// vendor the pause has begun. The body can only extend it. With accounts, the body can limit the hold to
// one of them, so it is waited for.
func (c *call[K, C]) holdEarly(e *StatusError) {
	cfg := c.d.config()
	if limit, limited := cfg.Classify(e); limited && c.own == nil {
		c.vendor.Hold(cfg.pause(limit) - time.Since(e.arrived))
	}
}

// hold begins or extends a cooldown and ends the attempt.
func (c *call[K, C]) hold(cfg *Config[K, C], limit Limited, since time.Time) (until time.Time) {
	wait, sent := cfg.pause(limit), c.running.Load() // otherwise Dial was refused
	if sent && !since.IsZero() {
		wait -= time.Since(since)
	}
	cool, key, permit, place := c.d.cool, "", &c.vendor, core.Failure
	if limit.Scope == ScopeAccount && c.own != nil {
		cool, key, permit, place = c.d.own, c.own.account, &c.own.permit, core.Ignored
	}
	c.notBefore = time.Now().Add(wait) // not after the end of the hold that begins now
	if sent {
		permit.Hold(wait)
	} else if !c.d.heldSince(key, since) { // as Permit.Hold has it
		cool.Hold(c.parent, key, wait)
	}
	if place == core.Ignored {
		c.vendor.Done(core.Success) // the vendor answers, and another account can be served
	}
	c.step(core.Ignored, place)
	if until, _ = cool.Until(key); until.Before(c.notBefore) {
		until = c.notBefore
	}
	return until
}
