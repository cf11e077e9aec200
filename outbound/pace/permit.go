package pace

import (
	"context"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// A Permit allows one call, from At until NotAfter. Both times have a monotonic reading of this
// process.
type Permit struct {
	At       time.Time
	NotAfter time.Time // zero if the permit has no end: the store failed, and the policy is Allow
	Cost     int64

	take *ratelimit.Result // of the slot
}

// Stale reports whether the shelf life is over: the call must not be made. Check it right before
// the call if the permit is from [Pacer.Reserve]; then get another one.
func (p Permit) Stale() bool { return p.staleAt(time.Now()) }

func (p Permit) staleAt(now time.Time) bool { return !p.NotAfter.IsZero() && now.After(p.NotAfter) }

// Wait waits for a permit of the key for a call of cost n, and returns when the call may be made:
// make it at once. A permit whose shelf life ends before Wait can return is given up for another
// one. Calls wait in the order of their arrival, or as Config.Fair says.
//
// The error is a [*LimitedError] if the permit would come after MaxWait or the deadline of ctx,
// [ErrFull], [ErrClosed], [ErrStore], a [*core.ConfigError] for a cost that is not 1 to the
// highest cost, or the cause of ctx. A call that leaves the queue passes its slot on.
func (p *Pacer) Wait(ctx context.Context, key string, n int64) (Permit, error) {
	set := p.setting()
	if set.Refresh != nil {
		set = p.refresh(ctx, set)
	}
	var permit Permit
	if p.takeNow(ctx, key, n, set, &permit) {
		return permit, nil
	}
	c := call{p: p, ctx: ctx, set: set, key: key, n: n, start: time.Now()}
	return c.end(c.wait())
}

// Reserve returns a permit at once, whose time At can be in the future: make the call then, if the
// permit is not [Permit.Stale]. It does not wait for the calls that wait in this process. A slot
// that is not used is lost. The errors are those of Wait; MaxWait limits At, the deadline of ctx
// does not.
func (p *Pacer) Reserve(ctx context.Context, key string, n int64) (Permit, error) {
	set := p.setting()
	if set.Refresh != nil {
		set = p.refresh(ctx, set)
	}
	var permit Permit
	if p.takeNow(ctx, key, n, set, &permit) {
		return permit, nil
	}
	c := call{p: p, ctx: ctx, set: set, key: key, n: n, start: time.Now()}
	return c.end(c.reserve())
}

// Do waits for a permit of the key and calls fn.
func Do[T any](ctx context.Context, p *Pacer, key string, n int64, fn func(context.Context) (T, error)) (T, error) {
	if _, err := p.Wait(ctx, key, n); err != nil {
		var none T
		return none, err
	}
	return fn(ctx)
}

// takeNow takes a permit of the memory of the process whose slot is now, if no other call waits. It
// does not read the clock: the limiter does (BenchmarkPermit).
func (p *Pacer) takeNow(ctx context.Context, key string, n int64, set *setting, permit *Permit) bool {
	if !p.memory || set.Mode == FixedWindow || n < 1 || p.busy.Load() != 0 || p.closed.Load() || ctx.Err() != nil {
		return false
	}
	r, err := p.limiter.Take(ctx, key, n)
	if err != nil || !r.Allowed {
		return false
	}
	p.granted.Inc()
	permit.At, permit.Cost = p.zero.Add(time.Duration(r.Receipt.At)), n
	permit.NotAfter = permit.At.Add(set.Slack)
	return true
}
