package gate

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"slices"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Do calls fn as soon as the vendor permits it. If the error of fn is a refusal (Config.Classify), fn is called again, up to
// Config.MaxAttempts times in all; then the error is a [*LimitedError]. The same applies if a request of fn over Transport was refused
// under fn's context, unless fn has repeated it with success and returns nil. An error of fn after an answer with Signal.Permanent or
// Executed becomes a core.Permanent. Every other error of fn is returned unchanged.
// [Gate.Transport] says what happens under the context of another call. What fn begins under its context must have ended when fn returns.
//
//nolint:contextcheck // that of the call is made of ctx
func (g *Gate) Do(ctx context.Context, call Call, fn func(ctx context.Context) error) error {
	ctx = g.WithCall(ctx, call)
	c, own, err := g.enter(ctx, nil)
	if err != nil {
		return err
	}
	if own {
		defer c.end()
		ctx = c.ctx
	}
	_, err = repeat(ctx, c, own, nil, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// repeat makes the attempts of a call, or of one page, under ctx. If it is not to be sent again here, there is one attempt. open gets the
// connection.
func repeat[R any](ctx context.Context, c *call, again bool, open func(context.Context) error, fn func(context.Context) (R, error)) (r R, err error) {
	for n := 1; ; n++ {
		// While all functions send over Transport, their calls take no slot before they have a connection.
		bound := c.g.bound.Load() && time.Now().UnixNano() > c.g.mixed.Load()
		if err = c.sendable(ctx, !bound, open); err != nil {
			return r, err
		}
		r, err = fn(c.carry(ctx))
		var refused bool
		if refused, err = c.finish(err); !refused || !again {
			c.g.locked(func() { c.g.land(c.turn) })
			return r, err
		}
		if err = c.again(ctx, n); err != nil {
			return r, err
		}
	}
}

// sendable waits until the call may be sent: at once if slots is true, otherwise when it has its connection.
func (c *call) sendable(ctx context.Context, slots bool, open func(context.Context) error) (err error) {
	for {
		if c.admitted() == nil {
			if err = c.pass(ctx); err != nil {
				return err
			}
		}
		if open != nil {
			if err = open(ctx); err != nil {
				c.back()
				return err
			}
		}
		if c.ready(ctx, slots) {
			return nil
		}
		c.back()
	}
}

// finish judges the error of a function, unless a request of the function was judged already. It reports whether the call is to be sent
// again, and returns the error for the caller.
func (c *call) finish(err error) (again bool, result error) {
	rejected := errors.Is(err, core.ErrRejected) && client.NotSent(err)
	inside, ok := errors.AsType[*LimitedError](err)
	final := ok && inside.Err != nil && inside.Gate == c.g.Name() // a call inside has used up its attempts
	unlock := c.g.lock()
	if !c.used {
		c.g.mixed.Store(c.g.now.Add(time.Minute).UnixNano())
		c.charge()
	}
	c.used = true // no request can use the permit from now on
	// After a success, a later request that passed is taken for a repetition of the refused one.
	counted, refused, forGood := c.counted, c.refused && !final && (err != nil || !c.passed), c.final
	sent := counted || c.turn != nil && !rejected
	unlock()
	sig := Signal{}
	if sent && !refused && !forGood {
		sig = c.classify(err)
	}
	switch {
	case counted:
		c.hold(sig, err)
	case sent:
		c.judge(sig, answer(err), err)
	default:
		c.back()
	}
	if err != nil && (forGood || sig.forGood()) {
		return false, &blame.FinalError{Err: err}
	}
	return refused || sig.again(), err
}

// classify returns what the error of a function says about limits.
func (c *call) classify(err error) (sig Signal) {
	none := func(e error) bool { return errors.Is(err, e) }
	if err != nil && !slices.ContainsFunc([]error{core.ErrRejected, ErrLimited, context.Canceled, context.DeadlineExceeded}, none) {
		sig = c.g.settings().Classify(nil, err).plain()
	}
	return sig
}

// answer reports whether an error can be an answer of the vendor, unlike the end of a connection or of a context, or the error of a gate.
func answer(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return false
	}
	none := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.Canceled, context.DeadlineExceeded, core.ErrRejected, ErrLimited}
	return !slices.ContainsFunc(none, func(none error) bool { return errors.Is(err, none) })
}

// Do calls fn with a connection of the key, in the caller's goroutine, as [Gate.Do] does. fn must not use the connection
// after it has returned, and cannot make calls with the same pool, only with others. A panic of fn continues in the caller,
// and its connection is closed. An error of Dial is returned unchanged.
func Do[R any, K comparable, C any](ctx context.Context, p *Pool[K, C], key K, fn func(ctx context.Context, conn C) (R, error)) (r R, err error) {
	u, err := p.enter(ctx, key)
	if err != nil {
		return r, err
	}
	defer p.leave(u)
	return over(u, p, u.own, fn)
}

// over makes the attempts of a call, or of one page, with a connection, which is closed unless fn returns.
func over[R any, K comparable, C any](u use, p *Pool[K, C], again bool, fn func(context.Context, C) (R, error)) (R, error) {
	open := func(ctx context.Context) error { return p.open(ctx, u.call) }
	return repeat(u.ctx, u.call, again, open, func(ctx context.Context) (R, error) {
		n := u.call.conn
		n.busy = true
		r, err := fn(ctx, as[C](n.c))
		n.busy = false
		return r, err
	})
}

// Stream iterates over the rows of pages; first is the position of the first page. fetch returns the rows of one page
// and the position of the next; a zero position ends the stream. Each page is a call that passes the gate like one of
// [Do]: if it is refused, the stream waits, and fetches the same page again. The stream keeps its connection until it
// ends. Its last element can be an error. What fetch begins under its context must have ended when it returns.
//
// A loop over a stream must not make calls with the same pool if such loops can occupy all of its connections.
func Stream[R any, P comparable, K comparable, C any](ctx context.Context, p *Pool[K, C], key K, first P, fetch func(ctx context.Context, conn C, at P) (rows []R, next P, err error)) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		u, err := p.enter(ctx, key)
		if err != nil {
			yield(none, err)
			return
		}
		defer p.leave(u)
		u.call.pinned = true
		var end P
		for at, again := first, u.own; ; again = true { // only the first page can use the permit of a function around
			var next P
			rows, err := over(u, p, again, func(ctx context.Context, conn C) (rows []R, err error) {
				rows, next, err = fetch(ctx, conn, at)
				return rows, err
			})
			if err != nil {
				yield(none, err)
				return
			}
			u.call.turned()
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if at = next; at == end {
				return
			}
		}
	}
}

// turned makes the next page of a stream a call of its own, the last of the queue.
func (c *call) turned() {
	defer c.g.lock()()
	c.g.seq++
	c.seq, c.turn, c.last, c.since = c.g.seq+unreserved, nil, nil, time.Time{}
	c.useBuckets()
}
