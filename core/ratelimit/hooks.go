package ratelimit

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Limiter]. Any of them can be nil. They are called by the goroutine of the
// operation, with no lock held, and must not block. A panic in a hook is counted and recovered.
type Hooks struct {
	// Allowed is called when permits were granted, at once or after a wait. It is not called if
	// the store failed and OnStoreError allowed the call.
	Allowed func(ctx context.Context, info Info)
	// Rejected is called when permits were refused.
	Rejected func(ctx context.Context, info Info)
	// Queued is called when a wait begins, before it.
	Queued func(ctx context.Context, info Info)
	// Waited is called when a wait ended with its permits, before Allowed.
	Waited func(ctx context.Context, info Info)
	// Canceled is called when a wait ended before its time: by its context, or
	// because the limiter was closed. The permits are given back.
	Canceled func(ctx context.Context, info Info)
	// StoreFailed is called when the store could not decide.
	StoreFailed func(ctx context.Context, info Info)
	// StoreRecovered is called once after one or more failures, when the store has
	// granted permits to an operation that began after the last of them.
	StoreRecovered func(ctx context.Context, info Info)
}

// Info describes an event to the hooks of a [Limiter].
type Info struct {
	Name   string        // of the limiter
	Key    string        // a copy; it might be a secret
	Cost   int64         // as requested
	Result Result        // of the store; zero when it failed, and in StoreRecovered
	Waited time.Duration // Waited, Allowed, Canceled: how long it did
	Err    error         // Canceled, StoreFailed: why
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Allowed:     hook.Join(h.Allowed, other.Allowed),
		Rejected:    hook.Join(h.Rejected, other.Rejected),
		Queued:      hook.Join(h.Queued, other.Queued),
		Waited:      hook.Join(h.Waited, other.Waited),
		Canceled:    hook.Join(h.Canceled, other.Canceled),
		StoreFailed: hook.Join(h.StoreFailed, other.StoreFailed),

		StoreRecovered: hook.Join(h.StoreRecovered, other.StoreRecovered),
	}
}
