package cooldown

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
	"github.com/gresil/gresil/internal/waitq"
)

// Hooks observe a [Cooldown]. Any of them may be nil. They are called by a goroutine
// that uses the cooldown or is one of the Store, with no lock held, and must not block.
// They may use the cooldown. A panic in a hook is recovered and counted.
type Hooks struct {
	// Held is called when a hold begins, and when it is extended, also by another process.
	Held func(ctx context.Context, info Info)
	// Resumed is called when the first call after a hold has succeeded. It is in order
	// with Held: the next of both is called after this one has returned.
	Resumed func(ctx context.Context, info Info)
	// Waited is called when a call that had to wait is admitted.
	Waited func(ctx context.Context, info Info)
	// Rejected is called when a call is not admitted. A call whose context ended is not
	// one of these.
	Rejected func(ctx context.Context, info Info)
	// StoreFailed is called when the Store fails: holds are not shared until
	// StoreRecovered is called.
	StoreFailed func(ctx context.Context, info Info)
	// StoreRecovered is called when holds are shared again.
	StoreRecovered func(ctx context.Context, info Info)
}

// Info is the argument of the hooks of a [Cooldown].
type Info struct {
	Name   string        // of the cooldown
	Key    string        // a copy; it may be a secret
	Until  time.Time     // when the hold is over, or was
	Waited time.Duration // Waited, Rejected: how long the call did
	Err    error         // StoreFailed
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Held:     hook.Join(h.Held, other.Held),
		Resumed:  hook.Join(h.Resumed, other.Resumed),
		Waited:   hook.Join(h.Waited, other.Waited),
		Rejected: hook.Join(h.Rejected, other.Rejected),

		StoreFailed:    hook.Join(h.StoreFailed, other.StoreFailed),
		StoreRecovered: hook.Join(h.StoreRecovered, other.StoreRecovered),
	}
}

func (c *Cooldown) tell(ctx context.Context, f func(context.Context, Info), info Info) {
	if f != nil {
		defer c.life.Panics.Recover()
		info.Name = c.Name()
		f(waitq.Unbound(ctx), info)
	}
}

// An event is the kind of a change.
type event uint8

const (
	held  event = iota
	heard       // held by another process
	resumed
	released
	storeFailed
	storeRecovered
)

// A change is an event that the table and the hooks receive in order.
type change struct {
	ctx   context.Context //nolint:containedctx // of the call that caused it, for the hook
	key   string
	until time.Time
	what  event
	err   error
}

// announce passes the changes on, after the lock is released.
func (c *Cooldown) announce() {
	c.changes.Drain(func(e change) {
		if c.table != nil {
			switch left := time.Until(e.until); e.what { //nolint:exhaustive // the others concern this process
			case held:
				c.table.Hold(e.key, left)
			case released:
				c.table.Release(e.key, left)
			}
		}
		c.tell(e.ctx, e.what.of(c.life.Hooks()), Info{Key: e.key, Until: e.until, Err: e.err})
	})
}

// of returns the hook of an event.
func (e event) of(h *Hooks) func(context.Context, Info) {
	return [...]func(context.Context, Info){h.Held, h.Held, h.Resumed, nil, h.StoreFailed, h.StoreRecovered}[e]
}
