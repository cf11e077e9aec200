package dispatch

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Dispatcher]. Any of them may be nil. They are called by a goroutine
// that makes a call, with no lock held, and must not block. A panic in a hook is
// recovered and counted.
type Hooks struct {
	// Held is called when a cooldown begins, and when it is extended.
	Held func(ctx context.Context, info Info)
	// Resumed is called when the first call after a cooldown was answered.
	Resumed func(ctx context.Context, info Info)
	// Waiting is called when a call begins to wait for a connection.
	Waiting func(ctx context.Context, info Info)
	// Connected is called when a call that waited has a connection, or the right to dial.
	Connected func(ctx context.Context, info Info)
	// Returned is called when a connection has come back from a call, or was closed as
	// the call did not return.
	Returned func(ctx context.Context, info Info)
	// GaveUp is called when a call has used up its attempts.
	GaveUp func(ctx context.Context, info Info)
	// StoreFailed is called when the Store fails: cooldowns are not shared until
	// StoreRecovered is called. Both are called by a goroutine of the Store, as is Held for
	// a cooldown that another process began.
	StoreFailed func(ctx context.Context, info Info)
	// StoreRecovered is called when cooldowns are shared again.
	StoreRecovered func(ctx context.Context, info Info)
}

// Info is the argument of the hooks of a [Dispatcher].
type Info struct {
	Name     string        // of the dispatcher
	Scope    Scope         // Held, Resumed
	Account  string        // Held, Resumed: of ScopeAccount
	Until    time.Time     // Held, Resumed: the end of the cooldown
	Key      any           // the others: the key of the call
	Waited   time.Duration // Connected: the time of the wait
	Attempts int           // GaveUp
	Err      error         // GaveUp: of the last attempt; StoreFailed
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Held:      hook.Join(h.Held, other.Held),
		Resumed:   hook.Join(h.Resumed, other.Resumed),
		Waiting:   hook.Join(h.Waiting, other.Waiting),
		Connected: hook.Join(h.Connected, other.Connected),
		Returned:  hook.Join(h.Returned, other.Returned),
		GaveUp:    hook.Join(h.GaveUp, other.GaveUp),

		StoreFailed:    hook.Join(h.StoreFailed, other.StoreFailed),
		StoreRecovered: hook.Join(h.StoreRecovered, other.StoreRecovered),
	}
}

// call calls a hook of a dispatcher. f is not nil.
func (d *Dispatcher[K, C]) call(ctx context.Context, f func(context.Context, Info), info Info) {
	defer d.life.Panics.Recover()
	info.Name = d.Name()
	f(ctx, info)
}

func hooksOf[K comparable, C any](c *Config[K, C]) Hooks { return c.Hooks }
