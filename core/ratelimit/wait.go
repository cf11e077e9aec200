package ratelimit

import (
	"context"
	"time"

	"github.com/gresil/gresil/core"
)

// Wait takes n permits of a key as soon as they are to be had, in the order of the
// calls, and returns when they are. It is refused at once, with a
// [*LimitedError], when that would be later than MaxWait or the deadline of ctx,
// or never; then nothing is taken. When ctx ends during the wait, the permits go
// back and the error is its cause. A place that a cost left free in a window, since
// it did not fit in, stays free.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	most := l.cfg.maxWait()
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline))
	}
	r, err := l.apply(ctx, key, Op{Kind: Reserve, Cost: n, MaxWait: most})
	if err != nil {
		return r, err
	}
	if r.Wait > 0 {
		if err := l.sleep(ctx, key, n, r); err != nil {
			return Result{}, err
		}
	}
	l.decided(ctx, key, n, r, r.Wait)
	if !r.Allowed {
		return r, &LimitedError{Name: l.Name(), Result: r}
	}
	return r, nil
}

// sleep waits for what is reserved, and gives it back when it is not waited for.
func (l *Limiter) sleep(ctx context.Context, key string, n int64, r Result) error {
	h := l.hooks.Load()
	if h.Queued != nil {
		l.tell(ctx, h.Queued, Info{Key: key, Cost: n, Result: r})
	}
	start := time.Now()
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	var err error
	select {
	case <-timer.C:
		if h := l.hooks.Load(); h.Waited != nil {
			l.tell(ctx, h.Waited, Info{Key: key, Cost: n, Result: r, Waited: r.Wait})
		}
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.done:
		err = ErrClosed
	}
	_, _ = l.Refund(ctx, key, r) // if the store fails, the permits come back in their time
	l.canceled.Add(1)
	if h.Canceled != nil {
		l.tell(ctx, h.Canceled, Info{Key: key, Cost: n, Result: r, Waited: time.Since(start), Err: err})
	}
	return err
}

// Do waits for one permit of the key "" and runs op.
func Do[T any](ctx context.Context, l *Limiter, op func(context.Context) (T, error)) (T, error) {
	if _, err := l.Wait(ctx, "", 1); err != nil {
		var zero T
		return zero, err
	}
	return op(ctx)
}

// Run waits for one permit of the key "" and runs what is further in: it makes the
// limiter a [core.Mechanism].
func (l *Limiter) Run(ctx context.Context, next core.Next) (any, error) {
	if _, err := l.Wait(ctx, "", 1); err != nil {
		return nil, err
	}
	return next.Run(ctx)
}
