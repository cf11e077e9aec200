package retry

import (
	"context"
	"errors"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/untyped"
)

// Do runs operation, and runs it again according to the Config of p, in the caller's
// goroutine.
//
// It returns the result of the last attempt. If attempts were repeated and the last one
// failed too, the error is an [*Error] that wraps the last error, or that error
// itself if RetryIf returns false for it. If ctx ends in a wait, the error is an
// [*Error] with a Cause at once; if ctx ends in an attempt that fails, it is that attempt's
// own, also after retries. If ctx is done beforehand, operation does not run, and the
// error is the cause.
//
// An operation that panics is not retried.
func Do[T any](ctx context.Context, p *Policy, operation func(context.Context) (T, error)) (T, error) {
	s := p.life.Load()
	if s.Settings.direct && !p.life.Calls() && ctx.Err() == nil && ctx.Value(infoKey{}) == nil {
		result, err := operation(ctx)
		if err == nil {
			if b := s.Config.Budget; b != nil {
				b.pay()
			}
			p.counters.succeeded.Inc()
			return result, nil
		}
		return loop(ctx, Call{policy: p, cfg: &s.Config}, operation, result, err)
	}
	if ctx.Err() != nil {
		p.counters.failed.Add(1)
		return mapped(&s.Config, *new(T), context.Cause(ctx))
	}
	c := p.Begin(nil)
	result, err := operation(c.Context(ctx))
	return loop(ctx, c, operation, result, err)
}

// Run makes a Policy a [core.Mechanism]. It does the same as [Do].
func (p *Policy) Run(ctx context.Context, next core.Next) (any, error) {
	return Do(ctx, p, next.Run)
}

// loop continues after the first attempt.
func loop[T any](ctx context.Context, c Call, operation func(context.Context) (T, error), result T, err error) (T, error) {
	for c.Next(ctx, attempt(ctx, &c, result, err)) == Again {
		if waitErr := c.Wait(ctx); waitErr != nil {
			return mapped(c.cfg, result, waitErr)
		}
		result, err = operation(c.Context(ctx))
	}
	if c.last != Done {
		err = c.Error(err, result)
	}
	return mapped(c.cfg, result, err)
}

// attempt judges an attempt by the Config.
func attempt[T any](ctx context.Context, c *Call, result T, err error) Attempt {
	switch wanted := c.cfg.RetryResult; {
	case err != nil:
		return failure(ctx, c.cfg, err)
	case wanted != nil:
		a := Attempt{Result: result}
		a.Retryable = wanted(a.Result)
		return a
	case c.retry > 0:
		return Attempt{Result: result}
	}
	return Attempt{} // the result is not used, and would have to be allocated
}

func failure(ctx context.Context, c *Config, err error) Attempt {
	a := Attempt{Err: err}
	switch {
	case ctx.Err() != nil, blame.Permanent(err): // RetryIf is not called
	case errors.Is(err, core.ErrRejected) && (!c.RetryRejected || blame.Hopeless(err)):
		a.Retryable, a.Suppress = true, Rejected
	case c.RetryIf == nil || c.RetryIf(err):
		a.Retryable = true
		a.Floor, _ = core.RetryAfter(err)
	}
	return a
}

func mapped[T any](c *Config, result T, err error) (T, error) {
	if c.Map == nil {
		return result, err
	}
	return untyped.As[T](c.Map(result, err))
}

// MapError returns a Config.Map that replaces the error of a failed call by f(err), which
// may be nil. The result, and a call that succeeded, stay as they are. A nil f changes
// nothing.
func MapError(f func(error) error) func(result any, err error) (any, error) {
	return func(result any, err error) (any, error) {
		if err != nil && f != nil {
			err = f(err)
		}
		return result, err
	}
}
