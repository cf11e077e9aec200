package ratelimit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/waitq"
)

// Wait takes n permits of a key as soon as they are available, and then returns; Result.Wait is
// the time that it waited. It is refused at once, with a [*LimitedError], if the permits would
// come later than MaxWait or the deadline of ctx, or never, or if the queue is full. If ctx ends
// during the wait, the error is its cause, and nothing is taken.
//
// In memory the waiters of a key form a queue (Config.NewestFirst), and permits are charged when a
// waiter is served. A refund, a reset and a change of the limit apply to the queue at once. A
// waiter that leaves makes room for the waiters after it. Without NewestFirst, no call takes permits
// of the key before its waiters. If a Drain or a lower limit delays a waiter beyond its MaxWait,
// it is refused then. A table without a queue, such as that of redisstore, makes a reservation, and gives it
// back if the wait is canceled.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	var r Result
	if set := l.settingOf(key); set.one != nil && l.memory.takeOne(clock, key, set.one, n, false, &r) {
		l.took(ctx, key, n, &r)
		return r, nil
	}
	most := waitq.Within(ctx, l.config().MaxWait)
	var err error
	if t, ok := l.table.(limits.QueueTable); ok && n > 0 {
		r, err = l.queue(ctx, t, strings.Clone(key), n, most)
	} else {
		r, err = l.reserve(ctx, key, n, most)
	}
	if err != nil {
		return Result{}, err
	}
	l.decided(ctx, key, n, &r, r.Wait)
	if !r.Allowed {
		return r, &LimitedError{Name: l.Name(), Result: r}
	}
	return r, nil
}

// queue waits in the queue of the key. An error is not a refusal: with an error nothing is taken.
func (l *Limiter) queue(ctx context.Context, t limits.QueueTable, key string, n int64, most time.Duration) (Result, error) {
	cfg, queued := l.config(), false
	r, err := t.Wait(ctx, key, &limits.Request{
		Limit: func() (driver.ID, *driver.Change) {
			set := l.settingOf(key)
			return set.plan, l.changeOf(set)
		},
		Cost: n, MaxWait: most, NewestFirst: cfg.NewestFirst, Room: cfg.room, Done: l.done,
		Queued: func(estimate Result, await func() (Result, error)) (Result, error) {
			queued = true
			return l.wait(ctx, key, n, estimate, func() (Result, error) {
				r, err := await()
				if r.Granted > 0 && err != nil { // it was served while it left
					_, _ = l.Refund(ctx, key, r)
				}
				return r, err
			})
		},
	})
	if err != nil && (!queued || !errors.Is(err, core.ErrClosed)) {
		return l.failed(ctx, key, l.settingOf(key).plan, driver.Op{Kind: driver.Reserve, Cost: n}, err)
	}
	return r, err
}

// reserve waits for a reservation.
func (l *Limiter) reserve(ctx context.Context, key string, n int64, most time.Duration) (Result, error) {
	r, err := l.apply(ctx, key, driver.Op{Kind: driver.Reserve, Cost: n, MaxWait: most})
	if err != nil || r.Wait == 0 {
		return r, err
	}
	begun := false
	defer func() {
		if !begun { // an observer panicked
			_, _ = l.Refund(ctx, key, r)
		}
	}()
	return l.wait(ctx, key, n, r, func() (Result, error) {
		begun = true
		timer := time.NewTimer(r.Wait)
		defer timer.Stop()
		var err error
		select {
		case <-timer.C:
			return r, nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.done:
			err = limits.ErrClosed
		}
		_, _ = l.Refund(ctx, key, r) // if the store fails, the permits come back in their time
		return r, err
	})
}

// wait counts a waiter and its wait. The caller
// of wait reports a refusal.
func (l *Limiter) wait(ctx context.Context, key string, n int64, estimate Result, f func() (Result, error)) (Result, error) {
	l.emitQueued(ctx, key, n)
	start := time.Now()
	r, err := func() (Result, error) {
		l.waiting.Add(1)
		defer l.waiting.Add(-1)
		return f()
	}()
	switch {
	case err != nil:
		l.canceled.Add(1)
		waited := time.Since(start)
		l.waits[1].Observe(waited)
		l.emitCanceled(ctx, key, n, waited, err)
	case r.Allowed:
		l.waits[0].Observe(r.Wait)
	}
	return r, err
}

// Do waits for one permit of the key "" and runs op.
func Do[T any](ctx context.Context, l *Limiter, op func(context.Context) (T, error)) (T, error) {
	if _, err := l.Wait(ctx, "", 1); err != nil {
		var zero T
		return zero, err
	}
	return op(ctx)
}

// Run waits for one permit of the key "" and runs the inner mechanisms and the operation: it makes
// the limiter a [core.Mechanism].
func (l *Limiter) Run(ctx context.Context, next core.Next) (any, error) {
	if _, err := l.Wait(ctx, "", 1); err != nil {
		return nil, err
	}
	return next.Run(ctx)
}
