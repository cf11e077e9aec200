package ratelimit

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// Never is the RetryAfter of a cost that does not fit into the limit at all, so
// that waiting does not help.
const Never = limits.Never

// A Result is what an operation on a key decided, and how the key stands after it.
type Result = limits.Result

// Take takes n permits of a key now, or none. A refusal is not an error: check Result.Allowed. A
// refusal changes nothing. With n = 0 it takes nothing.
//
// An error is never a refusal: n is negative, the limiter is closed, or the store failed and
// OnStoreError is not [Allow]. Whether ctx is done matters only to a store that has to wait; the
// error is then the cause of ctx.
func (l *Limiter) Take(ctx context.Context, key string, n int64) (r Result, err error) {
	err = l.takeInto(ctx, key, n, &r)
	return r, err
}

// takeInto is Take, which is inlined: copying a Result is slow (BenchmarkTake).
func (l *Limiter) takeInto(ctx context.Context, key string, n int64, r *Result) (err error) {
	set := l.current.Load()
	if !l.used.Load() {
		l.used.Store(true)
	}
	if l.overrides.n.Load() > 0 {
		set = cmp.Or(l.overrides.get(key), set)
	}
	if set.one != nil && l.memory.takeOne(clock, key, set.one, n, true, r) {
		if l.own == nil || l.life.Calls() {
			l.took(ctx, key, n, r)
		}
		return nil
	}
	*r, err = l.take(ctx, key, limits.Op{Kind: limits.Take, Cost: n})
	return err
}

// TakeAtMost takes the available permits of a key, up to n. A refusal is not an error: check
// Result.Allowed, and Result.Granted for the number.
func (l *Limiter) TakeAtMost(ctx context.Context, key string, n int64) (Result, error) {
	return l.take(ctx, key, limits.Op{Kind: limits.TakeAtMost, Cost: n})
}

// Peek returns the state of a key. It changes nothing and counts no decision.
func (l *Limiter) Peek(ctx context.Context, key string) (Result, error) {
	return l.apply(ctx, key, limits.Op{})
}

// Drain takes all permits that a key has now, for example after an upstream has throttled a call.
// Result.Granted is their number.
func (l *Limiter) Drain(ctx context.Context, key string) (Result, error) {
	r, err := l.apply(ctx, key, limits.Op{Kind: limits.Drain})
	r.Allowed, r.RetryAfter = err == nil, 0
	return r, err
}

// Reserve grants n permits of a key for the earliest possible moment, if that is within maxWait,
// and returns at once: use the permits after Result.Wait. A refusal is not an error: check
// Result.Allowed. If the permits are not used, Refund gives them
// back. No later call takes permits before them: a later take is refused, or reserved after them.
// A negative maxWait is no limit; a FixedWindow can be reserved three windows ahead, a sliding
// limit four periods. It does not queue behind the callers of [Limiter.Wait], of which only the first has a reservation.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64, maxWait time.Duration) (Result, error) {
	if maxWait < 0 {
		maxWait = math.MaxInt64
	}
	return l.take(ctx, key, limits.Op{Kind: limits.Reserve, Cost: n, MaxWait: maxWait})
}

// check decides as Take does, and takes nothing.
func (l *Limiter) check(ctx context.Context, key string, n int64) (Result, error) {
	return l.apply(ctx, key, limits.Op{Kind: limits.Check, Cost: n})
}

// Refund gives back the permits of a take, which its Result names. Call it at most once
// for a take, and not after a Reset. Permits that came back with time are not given back
// twice: after the window of the take it does nothing, nor after SetLimit to another kind of
// limit. While others hold places that lie ahead (see [Limiter.Reserve]), only the permits
// behind all of them are given back. A window of which all is given back still ends when it
// would have.
//
// A refund gives back only what certainly has not come back yet. Takes of one moment are given
// back whole, in any order. A later refund of a bucket can give back less if others have
// refunded earlier takes since; and a refund gives nothing back to a limit that was not in force
// for some later take and had fewer permits than that took, nor to a key that was evicted after
// such refunds (see [NewMemory]).
//
// The Result is how the key then stands under the limit in force: that of SetKeyLimit, or
// that of the limiter that took, which may have changed since.
//
// It runs even if ctx is done: a store that has to wait has a second for it.
func (l *Limiter) Refund(ctx context.Context, key string, take Result) (r Result, err error) {
	if take.Granted <= 0 {
		return l.Peek(ctx, key)
	}
	l.lines.Anew(func() { r, err = l.giveBack(ctx, key, take) }, key)
	return r, err
}

const refundTimeout = time.Second

func (l *Limiter) giveBack(ctx context.Context, key string, take Result) (Result, error) {
	if l.own == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
		defer cancel()
	}
	return l.applyUnder(ctx, l.settingOf(key), key, limits.Op{Kind: limits.Refund, Cost: take.Granted, Receipt: take.Receipt})
}

// Reset forgets the usage of a key, under every limit.
func (l *Limiter) Reset(ctx context.Context, key string) (err error) {
	l.lines.Anew(func() { _, err = l.apply(ctx, key, limits.Op{Kind: limits.Reset}) }, key)
	return err
}

func (l *Limiter) take(ctx context.Context, key string, op limits.Op) (Result, error) {
	r, err := l.apply(ctx, key, op)
	if err == nil {
		l.decided(ctx, key, op.Cost, &r, 0)
	}
	return r, err
}

// decided counts and announces a decision, unless the cost was 0 or the store did not
// decide.
func (l *Limiter) decided(ctx context.Context, key string, cost int64, r *Result, waited time.Duration) {
	if cost == 0 || r.Limit == 0 {
		return
	}
	l.count(r)
	l.emitDecision(ctx, key, cost, r, waited)
}

// took is decided after takeOne, which has counted the decision itself.
func (l *Limiter) took(ctx context.Context, key string, cost int64, r *Result) {
	if l.own == nil { // takeOne counts for all limiters of a shared table
		l.count(r)
	}
	l.emitDecision(ctx, key, cost, r, 0)
}

func (l *Limiter) count(r *Result) {
	if r.Allowed {
		l.allowed.Inc()
	} else {
		l.rejected.Inc()
	}
}
