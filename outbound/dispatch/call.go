package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/waitq"
)

// A call is one call that was accepted, and the context of its attempts. It belongs to
// one goroutine, apart from the context and the list.
type call[K comparable, C any] struct {
	lazy    // the context
	d       *Dispatcher[K, C]
	next    *call[K, C] // in the list of the dispatcher
	prev    *call[K, C]
	key     K
	own     *own // nil if only the vendor is held
	running atomic.Bool
	dialing atomic.Bool
	pinned  bool // the connection is kept during a cooldown of the account
	trying  bool // an attempt has begun
	lending bool // the connection is lent if the wait for a turn is too long
	end     ending
	limited int32 // attempts

	notBefore time.Time // the next attempt: the vendor has refused the last one until then
	conn      *conn[K, C]
	place     bulkhead.Permit
	vendor    cooldown.Permit
	paid      *payment
}

// own is the account of a call.
type own struct {
	account string // not empty
	permit  cooldown.Permit
	since   time.Time // of a permit after a cooldown
}

// A payment is a permit of a limiter.
type payment struct {
	limiter *ratelimit.Limiter
	receipt ratelimit.Result
}

// Value returns c itself for its dispatcher while an attempt or Dial runs, to detect re-entrancy.
func (c *call[K, C]) Value(key any) any {
	if d, ok := key.(*Dispatcher[K, C]); ok && d == c.d && (c.running.Load() || c.dialing.Load()) {
		return c
	}
	return c.lazy.Value(key)
}

// begin accepts a call. The caller defers finish.
func (d *Dispatcher[K, C]) begin(ctx context.Context, key K) (*call[K, C], error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if ctx.Value(d) != nil {
		return nil, ErrReentrant
	}
	var c *call[K, C]
	var account string
	cfg := d.config()
	if cfg.Account != nil {
		account = cfg.Account(key)
	}
	if account == "" {
		c = &call[K, C]{}
	} else {
		both := &struct { // one allocation
			call[K, C]
			own
		}{}
		c, both.account, both.call.own = &both.call, account, &both.own
	}
	c.parent, c.d, c.key = ctx, d, key
	if err := d.accept(c, cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// finish returns everything that the call has. A connection whose attempt did not return
// is closed.
func (c *call[K, C]) finish() {
	defer c.d.complete(c)
	defer c.release()
	defer c.disconnect(c.running.Load())
	c.step(core.Ignored, core.Ignored)
	c.refund()
}

// disconnect returns the connection.
func (c *call[K, C]) disconnect(broken bool) {
	n := c.conn
	if n == nil {
		return
	}
	c.conn = nil
	if broken {
		c.d.pool.free(n)
	} else {
		c.d.pool.put(n)
	}
	if f := c.d.life.Hooks().Returned; f != nil {
		c.d.call(c.parent, f, Info{Key: c.key})
	}
}

// step ends what one attempt holds.
func (c *call[K, C]) step(vendor, place core.Outcome) {
	if !c.trying {
		return
	}
	c.running.Store(false)
	if c.own != nil {
		c.own.permit.Done(vendor)
	}
	c.vendor.Done(vendor)
	c.place.Done(place)
	c.trying = false // a hook may have ended the goroutine before
}

func (c *call[K, C]) refund() {
	if p := c.paid; p != nil {
		c.paid = nil
		_ = p.limiter.Refund(c.parent, p.receipt) // if the store fails, it comes back in its time
	}
}

// patience is how long a call waits for its turn after a cooldown until it begins again. It
// is up to a quarter longer: if all calls left the queue at one moment, and the probe
// succeeded then, the cooldown would end without a ramp, as if no call waited.
const patience = time.Second

// brief is the context of a call for such a wait.
type brief[K comparable, C any] call[K, C]

// Deadline limits the wait; a cooldown that lasts longer rejects the call at once. The
// wait is shorter if another call could use the connection.
func (b *brief[K, C]) Deadline() (time.Time, bool) {
	if b.lending && b.d.pool.busy() {
		return time.Now().Add(patience / 20), true
	}
	return time.Now().Add(patience + rand.N(patience/4)), true
}

// pass waits until an attempt may be sent: the gate. Whatever a call waits for, it reads
// the cooldown again afterwards. A call never waits for the connection of another one while
// it holds a turn after a cooldown, as calls that wait for such a turn can have all
// connections.
func (c *call[K, C]) pass() error {
	for {
		if err := c.awaitOpen(); err != nil {
			return err
		}
		ready, err := c.turnOfAccount()
		if ready && c.conn == nil {
			ready, err = c.connect()
		}
		if ready {
			ready, err = c.turn()
		}
		if err == nil && c.Err() != nil {
			err = c.cause()
		}
		if ready && err == nil {
			c.paid = nil
			c.running.Store(true)
			return nil
		}
		c.step(core.Ignored, core.Ignored)
		if err != nil {
			return c.fault(err)
		}
		c.refund() // permits of the limiter that wait for their turns would be used together
	}
}

// admit waits until an attempt may be sent. A Dial that the vendor refused because of a
// limit is an attempt, too.
func (c *call[K, C]) admit() error {
	for {
		err := c.pass()
		if refused, ok := err.(*dialError); ok { //nolint:errorlint // it is not wrapped
			again, err := c.judge(refused.err, false, refused.began)
			if again {
				continue
			}
			return err
		}
		if err != nil && c.Err() != nil {
			c.end = canceled
		}
		return err
	}
}

// A dialError is an error of Dial.
type dialError struct {
	err   error
	began time.Time
}

func (e *dialError) Error() string { return e.err.Error() }

// connect gets a connection. If it must wait for another call, it returns the turn of the
// account before, and ready is false.
func (c *call[K, C]) connect() (ready bool, err error) {
	if c.d.config().Healthy == nil { // most calls wait for nothing
		if c.conn = c.d.pool.reuse(c.key); c.conn != nil {
			return true, nil
		}
	}
	var since time.Time
	ready = true
	c.dialing.Store(true)
	defer c.dialing.Store(false)
	c.conn, err = c.d.pool.get(c, c.key, func() {
		since, ready = time.Now(), false
		c.step(core.Ignored, core.Ignored)
		if f := c.d.life.Hooks().Waiting; f != nil {
			c.d.call(c.parent, f, Info{Key: c.key})
		}
	}, func() {
		if f := c.d.life.Hooks().Connected; f != nil {
			c.d.call(c.parent, f, Info{Key: c.key, Waited: time.Since(since)})
		}
	})
	return ready && err == nil, err
}

// fault returns the cause of the context if it has ended, otherwise err.
func (c *call[K, C]) fault(err error) error {
	if err != nil && c.Err() != nil {
		return c.cause()
	}
	return err
}

// cause returns why the context has ended, for a call that is not sent.
func (c *call[K, C]) cause() error {
	err := context.Cause(c)
	if err == errCut { //nolint:errorlint // another one is the caller's
		return ErrClosed
	}
	return err
}

// turnOfAccount takes the turn of the account, if there is any.
func (c *call[K, C]) turnOfAccount() (ready bool, err error) {
	own := c.own
	if own == nil {
		return true, nil
	}
	c.trying, c.lending = true, c.conn != nil && !c.pinned
	if own.permit, err = c.d.own.Acquire((*brief[K, C])(c), own.account); err != nil {
		c.lend()
		return false, notHeld(err)
	}
	if own.permit.Probe() {
		own.since = time.Now()
	}
	return true, nil
}

// turn takes a place in flight, the turn of the vendor and the permit of the limiter. It
// reports whether the attempt can be sent now.
func (c *call[K, C]) turn() (ready bool, err error) {
	c.trying = true
	if c.place, err = c.d.flight.Acquire(c, "", 1); err != nil {
		return false, err
	}
	c.lending = false
	if c.vendor, err = c.d.cool.Acquire((*brief[K, C])(c), ""); err != nil {
		return false, notHeld(err)
	}
	if limiter := c.d.config().Limiter; limiter != nil && c.paid == nil {
		if err = c.pay(limiter); c.paid == nil {
			return false, err
		}
	}
	return (c.own == nil || c.own.permit.Ready()) && c.vendor.Ready(), nil
}

// pay waits for a permit of the limiter. If that would take too much of a turn after a cooldown, the call
// comes again at its time, and leaves the turn to others.
func (c *call[K, C]) pay(limiter *ratelimit.Limiter) error {
	ctx, by := context.Context(c), time.Time{}
	if c.vendor.Probe() {
		by = time.Now().Add(probeTimeout / 2)
	}
	if c.own != nil && c.own.permit.Probe() {
		by = c.own.since.Add(probeTimeout / 2)
		if least := time.Now().Add(time.Second); by.Before(least) {
			by = least // a store can need that
		}
	}
	if !by.IsZero() {
		ctx = soon{c, by}
	}
	receipt, err := limiter.Wait(ctx, c.d.Name(), 1)
	if err == nil {
		c.paid = &payment{limiter, receipt}
		return nil
	}
	limited, ok := errors.AsType[*ratelimit.LimitedError](err)
	if !ok || by.IsZero() || limited.RetryAfter() < 0 || limited.RetryAfter() > waitq.Within(c, limiter.Config().MaxWait) {
		return err
	}
	c.notBefore = time.Now().Add(limited.RetryAfter())
	return nil
}

// A soon is a context for a wait that begins only if it is over by a time.
type soon struct {
	context.Context //nolint:containedctx // it is one

	by time.Time
}

func (s soon) Deadline() (time.Time, bool) {
	if at, ok := s.Context.Deadline(); ok && at.Before(s.by) {
		return at, true
	}
	return s.by, true
}

func notHeld(err error) error {
	if errors.Is(err, cooldown.ErrHeld) {
		return nil
	}
	return err
}

// lend returns the connection while the call waits for less than the whole vendor, so that
// others can use it.
func (c *call[K, C]) lend() {
	if !c.pinned {
		c.disconnect(false)
	}
}

// awaitOpen waits while a scope of the call is held, and until the end of the pause that
// the vendor asked this call for: if that answer was late, the cooldown ignores it.
func (c *call[K, C]) awaitOpen() error {
	for {
		until, held := c.d.cool.Until("")
		alone := c.notBefore
		if c.own != nil {
			if own, ok := c.d.own.Until(c.own.account); ok && own.After(alone) {
				alone = own
			}
		}
		if !held && (alone.IsZero() || time.Until(alone) <= 0) { // most calls read no clock
			return nil
		}
		if alone.After(until) {
			until = alone
			c.lend()
		}
		c.refund() // the permit would be too old
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
		case <-c.Done():
			timer.Stop()
			return c.cause()
		}
	}
}

// growth is how many attempts count as one for the limit in flight. It grows slowly, as
// each overrun costs a cooldown.
const growth = 16
