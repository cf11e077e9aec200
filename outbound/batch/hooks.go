package batch

import (
	"context"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Batcher]. Any of them may be nil. Each call of a hook has a goroutine of its own,
// which the batcher waits for with no lock held: a hook must not block. A panic in a hook is recovered
// and counted.
type Hooks struct {
	// Called is called after each call of Send, those of exempt records included.
	Called func(ctx context.Context, info Info)
	// Redelivered is called when a batch was taken whose lease had expired: its records may have
	// been sent by a process that has stopped.
	Redelivered func(ctx context.Context, info Info)
	// Failed is called when records of a batch have failed, and are not sent again.
	Failed func(ctx context.Context, info Info)
	// StoreFailed is called when the store, or the Pacer, has failed.
	StoreFailed func(ctx context.Context, info Info)
	// StoreRecovered is called when the store, or the Pacer, works again after failures.
	StoreRecovered func(ctx context.Context, info Info)
}

// Info is the argument of the hooks of a [Batcher].
type Info struct {
	Name    string        // of the batcher
	Method  string        // of the batcher
	Option  string        // of the records; it may be a secret
	Key     string        // idempotency key of the call
	Records int           // of the call, or of Failed
	IDs     []string      // Failed: of the records
	Took    time.Duration // Called
	Err     error         // Called: of the whole call, or nil; Failed: of one record; StoreFailed
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Called:         hook.Join(h.Called, other.Called),
		Redelivered:    hook.Join(h.Redelivered, other.Redelivered),
		Failed:         hook.Join(h.Failed, other.Failed),
		StoreFailed:    hook.Join(h.StoreFailed, other.StoreFailed),
		StoreRecovered: hook.Join(h.StoreRecovered, other.StoreRecovered),
	}
}

// call calls a hook, which may be nil.
func (b *Batcher[T, R]) call(ctx context.Context, f func(context.Context, Info), info Info) {
	if f == nil {
		return
	}
	named := info // so that info does not escape when there is no hook
	named.Name, named.Method = b.Name(), b.method
	b.life.Panics.Apart(func() { f(ctx, named) })
}

func hooksOf[T, R any](c *Config[T, R]) Hooks { return c.Hooks }
