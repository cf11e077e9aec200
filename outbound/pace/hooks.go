package pace

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/hook"
)

// Hooks observe a [Pacer]. Any of them may be nil. They are called by the goroutine of the call, with
// no lock held, and must not block. A panic in a hook is recovered and counted.
type Hooks struct {
	// Waited is called when a call has its permit after a wait.
	Waited func(ctx context.Context, info Info)
	// Stale is called when a permit was given up because its shelf life was over.
	Stale func(ctx context.Context, info Info)
	// Rejected is called when a call does not get a permit, also if its context ended.
	Rejected func(ctx context.Context, info Info)
	// Refreshed is called when Refresh has returned rates, which are in force then.
	Refreshed func(ctx context.Context, info Info)
	// RefreshFailed is called when Refresh has failed, or returned rates that are not valid. The
	// last rates stay in force.
	RefreshFailed func(ctx context.Context, info Info)
	// StoreFailed is called when the store could not decide, before OnStoreError applies.
	StoreFailed func(ctx context.Context, info Info)
	// StoreRecovered is called when the store has decided again after failures.
	StoreRecovered func(ctx context.Context, info Info)
}

// Info is the argument of the hooks of a [Pacer].
type Info struct {
	Name   string        // of the pacer
	Key    string        // of the call; it may be a secret
	Cost   int64         // of the call; 0 in StoreFailed and StoreRecovered
	Waited time.Duration // Waited, Rejected: the time of the wait
	Late   time.Duration // Stale: the time since the end of the shelf life
	Rates  []Rate        // Refreshed
	Err    error         // Rejected, RefreshFailed, StoreFailed
}

// Join returns hooks that call those of h and then those of other.
func (h Hooks) Join(other Hooks) Hooks {
	return Hooks{
		Waited:         hook.Join(h.Waited, other.Waited),
		Stale:          hook.Join(h.Stale, other.Stale),
		Rejected:       hook.Join(h.Rejected, other.Rejected),
		Refreshed:      hook.Join(h.Refreshed, other.Refreshed),
		RefreshFailed:  hook.Join(h.RefreshFailed, other.RefreshFailed),
		StoreFailed:    hook.Join(h.StoreFailed, other.StoreFailed),
		StoreRecovered: hook.Join(h.StoreRecovered, other.StoreRecovered),
	}
}

// call calls a hook, which may be nil.
func (p *Pacer) call(ctx context.Context, f func(context.Context, Info), info Info) {
	if f == nil {
		return
	}
	defer p.life.Panics.Recover()
	info.Name, info.Key, info.Rates = p.Name(), strings.Clone(info.Key), slices.Clone(info.Rates)
	f(ctx, info)
}

func hooksOf(c *Config) Hooks { return c.Hooks }
