package cooldown

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/waitq"
)

// Hooks observe a [Cooldown]. Any of them may be nil. They are called by a goroutine
// that uses the cooldown, with no lock held, and must not block. They may use the
// cooldown. A panic in a hook is recovered and counted.
type Hooks struct {
	// Held is called when a hold begins, and when it is extended.
	Held func(ctx context.Context, info Info)
	// Resumed is called when the first call after a hold has succeeded. It is in order
	// with Held: the next of both is called after this one has returned.
	Resumed func(ctx context.Context, info Info)
	// Waited is called when a call that had to wait is admitted.
	Waited func(ctx context.Context, info Info)
	// Rejected is called when a call is not admitted. A call whose context ended is not
	// one of these.
	Rejected func(ctx context.Context, info Info)
}

// Info is the argument of the hooks of a [Cooldown].
type Info struct {
	Name   string        // of the cooldown
	Key    string        // a copy; it may be a secret
	Until  time.Time     // when the hold is over, or was
	Waited time.Duration // Waited, Rejected: how long the call did
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Held:     hook.Join(h.Held, other.Held),
		Resumed:  hook.Join(h.Resumed, other.Resumed),
		Waited:   hook.Join(h.Waited, other.Waited),
		Rejected: hook.Join(h.Rejected, other.Rejected),
	}
}

func (c *Cooldown) tell(ctx context.Context, f func(context.Context, Info), key string, until time.Time, waited time.Duration) {
	if f != nil {
		defer c.life.Panics.Recover()
		f(waitq.Unbound(ctx), Info{Name: c.Name(), Key: key, Until: until, Waited: waited})
	}
}

// A change is an event that hooks receive in order.
type change struct {
	ctx   context.Context //nolint:containedctx // of the call that caused it, for the hook
	key   string
	until time.Time
	held  bool
}

// announce calls the hooks of the changes, after the lock is released.
func (c *Cooldown) announce() {
	c.changes.Drain(func(e change) {
		if h := c.life.Hooks(); e.held {
			c.tell(e.ctx, h.Held, e.key, e.until, 0)
		} else {
			c.tell(e.ctx, h.Resumed, e.key, e.until, 0)
		}
	})
}
