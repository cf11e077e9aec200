package ratelimit

import (
	"context"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/waitq"
)

// takeRate takes a token of a limiter of x/time.
func (t *clientTransport) takeRate(ctx context.Context, cfg *ClientConfig) (giveBack func(context.Context), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	most := waitq.Within(ctx, cfg.MaxWait)
	giveBack = func(context.Context) { t.credit(int64(cfg.Limiter.Burst())) }
	if t.spend() {
		return giveBack, nil
	}
	turn := cfg.Limiter.Reserve()
	if !turn.OK() {
		return nil, t.limited(cfg, ratelimit.Never)
	}
	if d := turn.Delay(); d > most {
		turn.Cancel()
		return nil, t.limited(cfg, d)
	} else if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			turn.Cancel()
			return nil, context.Cause(ctx)
		case <-t.closed:
			turn.Cancel()
			return nil, limits.ErrClosed
		}
	}
	return giveBack, nil
}

// credit keeps a token that was not used for the next request, but no more of them than
// most. A reservation whose time has come cannot be canceled, and x/time takes no token
// back while others wait.
func (c *Client) credit(most int64) {
	for {
		n := c.credits.Load()
		if n >= most || c.credits.CompareAndSwap(n, n+1) {
			return
		}
	}
}

// spend takes one of those, if there are any.
func (c *Client) spend() bool {
	for n := c.credits.Load(); n > 0; n = c.credits.Load() {
		if c.credits.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

func (t *clientTransport) limited(cfg *ClientConfig, retryAfter time.Duration) error {
	return &ratelimit.LimitedError{
		Name:   t.Name(),
		Result: ratelimit.Result{Limit: int64(cfg.Limiter.Burst()), RetryAfter: retryAfter},
	}
}
