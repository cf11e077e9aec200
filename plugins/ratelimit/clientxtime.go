package ratelimit

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/waitq"
)

// A turn is a token of a limiter of x/time that is reserved, or the wait after which it can be.
type turn struct {
	reserved *rate.Reservation // nil: one that was given back
	wait     time.Duration
}

// takeRate takes a token of a limiter of x/time.
func (t *clientTransport) takeRate(ctx context.Context, cfg *ClientConfig) (giveBack func(context.Context), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	most, burst := waitq.Within(ctx, cfg.MaxWait), int64(cfg.Limiter.Burst())
	credit := func() { t.line.Anew(func() { t.credit(burst) }) } // whoever waits takes it
	giveBack = func(context.Context) { credit() }
	var first waitq.Slot[turn]
	if !t.line.Has("") {
		if first = t.reserve(cfg.Limiter, 0); !first.Refused {
			return giveBack, nil
		}
		if first.At.IsZero() || first.Value.wait > most {
			return nil, t.limited(cfg, first.Value.wait)
		}
	}
	slot, err := t.line.Wait(ctx, t.closed, "", most, &waitq.Caller[turn]{
		Weight: 1, Every: every(cfg.Limiter, 1), Room: max(1000, 2*burst), Hint: first.Value.wait,
		After: func(_, more int64) time.Duration { return every(cfg.Limiter, more) },
		Reserve: func(_ context.Context, most time.Duration) (waitq.Slot[turn], error) {
			return t.reserve(cfg.Limiter, most), nil
		},
		Return: func(of turn) {
			if of.reserved != nil && of.reserved.Delay() > 0 {
				of.reserved.Cancel()
			} else {
				t.credit(burst)
			}
		},
		Refuse: func(retryAfter time.Duration) turn { return turn{wait: retryAfter} },
		Queued: func() {},
	})
	switch {
	case errors.Is(err, waitq.ErrClosed):
		return nil, core.ErrClosed
	case err != nil:
		return nil, err
	case slot.Refused:
		return nil, t.limited(cfg, slot.Value.wait)
	}
	return giveBack, nil
}

// reserve reserves a token within a time.
func (c *Client) reserve(of *rate.Limiter, most time.Duration) waitq.Slot[turn] {
	now := time.Now()
	if c.spend() {
		return waitq.Slot[turn]{At: now}
	}
	reserved := of.ReserveN(now, 1)
	if !reserved.OK() {
		return waitq.Slot[turn]{Value: turn{wait: limits.Never}, Refused: true}
	}
	wait := reserved.DelayFrom(now)
	if wait > most {
		reserved.CancelAt(now)
	}
	return waitq.Slot[turn]{Value: turn{reserved, wait}, At: now.Add(wait), Refused: wait > most}
}

// every returns the time in which a limiter of x/time gives some tokens.
func every(of *rate.Limiter, tokens int64) time.Duration {
	return time.Duration(min(float64(tokens)/float64(of.Limit())*float64(time.Second), 1<<62))
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
