package bulkhead

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Bulkhead]. Any of them may be nil. They are called by a goroutine
// that uses the bulkhead or is one of the Store, with no lock held, and must not block. They may use the
// bulkhead. A panic in a hook is recovered and counted.
type Hooks struct {
	// Waited is called when a call that had to wait is admitted.
	Waited func(ctx context.Context, info Info)
	// Rejected is called when a call is not admitted. A call whose context ended is not
	// one of these.
	Rejected func(ctx context.Context, info Info)
	// LimitChanged is called when the result of a call has changed the limit of its key,
	// with the context of that call. Changes arrive in order.
	LimitChanged func(ctx context.Context, info Info)
	// Lost is called when a call in flight has lost its permits in the Store, with the
	// context that it was admitted with.
	Lost func(ctx context.Context, info Info)
	// StoreFailed is called when the Store could not decide a call, before OnStoreError
	// applies, and not again until StoreRecovered is called.
	StoreFailed func(ctx context.Context, info Info)
	// StoreRecovered is called when the Store has decided again.
	StoreRecovered func(ctx context.Context, info Info)
}

// Info is the argument of the hooks of a [Bulkhead].
type Info struct {
	Key      string        // a copy; it may be a secret
	Weight   int           // that of the call, except in LimitChanged
	Waited   time.Duration // Waited, Rejected: how long the call waited
	OldLimit int           // LimitChanged: before
	Limit    int           // LimitChanged: from now on
	Err      error         // StoreFailed; Lost, if the lease could not be renewed
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Waited:       hook.Join(h.Waited, other.Waited),
		Rejected:     hook.Join(h.Rejected, other.Rejected),
		LimitChanged: hook.Join(h.LimitChanged, other.LimitChanged),

		Lost:           hook.Join(h.Lost, other.Lost),
		StoreFailed:    hook.Join(h.StoreFailed, other.StoreFailed),
		StoreRecovered: hook.Join(h.StoreRecovered, other.StoreRecovered),
	}
}

func (b *Bulkhead) call(ctx context.Context, f func(context.Context, Info), info Info) {
	if f != nil {
		defer b.life.Panics.Recover()
		f(ctx, info)
	}
}

// A change is a limit that a result has changed.
type change struct {
	ctx  context.Context //nolint:containedctx // of the call that caused it, for the hook
	info Info
}

// announce calls the hooks of the changes, after the lock is released.
func (b *Bulkhead) announce() {
	b.changes.Drain(func(e change) { b.call(e.ctx, b.life.Hooks().LimitChanged, e.info) })
}
