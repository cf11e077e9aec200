package dispatch

import (
	"context"
	"time"
)

// Do calls fn with a connection of the key, in the caller's goroutine, as soon as the
// vendor permits it. If the vendor refuses the call because of a limit (Config.Classify),
// all calls pause, and fn is called again, as often as Config.Attempts permits; then the
// error is a [*GaveUpError]. Every other result of fn is returned unchanged.
//
// fn must not use the connection after it has returned, and must return when its context
// ends. If the context of a call ends while the call waits, Do returns its cause. Other
// errors are those of Dial, of Limiter, [ErrClosed], [ErrFull] and [ErrReentrant].
//
// A panic of fn continues in the caller, as in the mechanisms of core. Its connection is
// closed then, as it is if fn ends its goroutine.
func Do[R any, K comparable, C any](ctx context.Context, d *Dispatcher[K, C], key K, fn func(ctx context.Context, conn C) (R, error)) (R, error) {
	var none R
	c, err := d.begin(ctx, key)
	if err != nil {
		return none, err
	}
	defer c.finish()
	return repeat(c, fn)
}

// repeat makes the attempts of one call, or of one page.
func repeat[R any, K comparable, C any](c *call[K, C], fn func(context.Context, C) (R, error)) (R, error) {
	for c.limited = 0; ; {
		if err := c.admit(); err != nil {
			var none R
			return none, err
		}
		result, err := fn(c, c.conn.c)
		if again, err := c.judge(err, err == nil || answered(err), time.Time{}); !again {
			return result, err
		}
	}
}
