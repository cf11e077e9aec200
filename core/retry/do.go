package retry

import (
	"context"
	"time"
)

// A Decision says whether and how an attempt is retried. The zero value means no retry.
type Decision struct {
	// Retry reports whether another attempt is wanted.
	Retry bool
	// After is the shortest wait before it, such as one that an upstream has asked for.
	After time.Duration
	// Discard is called before the wait if there is another attempt, for example to close a response. Its time counts as waiting.
	// It can be nil.
	Discard func()
	// Not is the reason why there must be no retry although Retry is true, such as "not_repeatable". It is counted, and
	// becomes Error.Reason. If it is "rejected", the attempt counts as not made, as after an error that matches
	// [core.ErrRejected].
	Not string
}

// Do runs operation in the caller's goroutine, and repeats it as the Config of p says. It returns the result of the last attempt. If the
// first attempt is not repeated, its error is returned unchanged; otherwise the error is an [*Error] that wraps the last one. A nil p
// stands for a policy of the zero Config.
func Do[T any](ctx context.Context, p *Policy, operation func(context.Context) (T, error)) (T, error) {
	if p == nil {
		return Loop(ctx, zero(), operation, nil)
	}
	if cfg := &p.life.Load().Config; cfg.MaxElapsed == 0 && cfg.RetryResult == nil && !p.life.Calls() && ctx.Err() == nil &&
		ctx.Value(attemptKey{}) == nil && p.changes(ctx) == nil {
		result, err := operation(ctx) // without the state of a call, which is faster (BenchmarkDoFirstTry)
		if err == nil {
			if b := cfg.Budget; b != nil {
				b.pay()
			}
			p.counters.succeeded.Inc()
			return result, nil
		}
		return loop(ctx, &call{policy: p, cfg: cfg, attempt: 1}, operation, nil, result, err)
	}
	return Loop(ctx, p, operation, nil)
}

// Loop is like Do, but check decides about each attempt, instead of RetryIf and RetryResult. It is for adapters of a protocol, such as
// plugins/retry. Like RetryIf, check is not called for core.Permanent, for rejections unless RetryRejected is set, or when the caller's
// context is done.
func Loop[T any](ctx context.Context, p *Policy, operation func(context.Context) (T, error), check func(T, error) Decision) (T, error) {
	if p == nil {
		p = zero()
	}
	c, err := p.begin(ctx)
	if err != nil {
		return *new(T), err
	}
	result, err := operation(c.context(ctx))
	return loop(ctx, &c, operation, check, result, err)
}

// loop continues after the first attempt.
func loop[T any](
	ctx context.Context, c *call, operation func(context.Context) (T, error), check func(T, error) Decision, result T, err error,
) (T, error) {
	for {
		why, asks := c.known(ctx, err), Decision{}
		switch {
		case why != "":
		case check != nil:
			asks = check(result, err)
		case err != nil:
			asks.Retry = c.cfg.RetryIf == nil || c.cfg.RetryIf(err)
		case c.cfg.RetryResult != nil:
			asks.Retry = c.cfg.RetryResult(result)
		}
		if err == nil && !asks.Retry {
			c.succeeded(ctx)
			return result, nil
		}
		r := Retry{Err: err}
		if err == nil {
			r.Result = result
		}
		if why = c.next(ctx, asks, why, r); why != "" {
			return result, c.error(why, err)
		}
		if asks.Discard != nil {
			asks.Discard()
		}
		if canceled := c.sleep(ctx, err); canceled != nil {
			return result, canceled
		}
		result, err = operation(c.context(ctx))
	}
}
