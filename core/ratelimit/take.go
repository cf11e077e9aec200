package ratelimit

import (
	"context"
	"math"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A Result is what an operation on a key decided, and how the key stands after it. Its fields:
//
//	Allowed    bool          // the permits may be used, after Wait. True for a cost of 0
//	Permits    int64         // that were taken: the cost, 0 if refused, or what was there for a TakeAtMost
//	Limit      int64         // the capacity of the limit that decided; 0 if the store failed and the call passes
//	Remaining  int64         // permits that can be taken now
//	Wait       time.Duration // until the permits may be used; 0 except for a Reserve
//	RetryAfter time.Duration // of a refusal: when the same cost can be allowed, if nobody else takes; negative: never
//	NextAfter  time.Duration // until there is one permit more than Remaining; 0 if the key is full
//	FullAfter  time.Duration // until the key is full, if nobody takes
//	Which      int           // of joined limits, the place of the one that Limit, Remaining, NextAfter and FullAfter are about
//	Receipt                  // names the take for a Refund
type Result = limits.Result

// Take takes n permits of a key now, or none. A refusal is not an error: check Result.Allowed. Taking 0 takes nothing, and
// is allowed.
//
// The error says that no decision was made: n is negative, the limiter is closed, or the store failed and OnStoreError is
// not Allow.
func (l *Limiter) Take(ctx context.Context, key string, n int64) (r Result, err error) {
	err = l.takeInto(ctx, key, n, &r)
	return r, err
}

// takeInto is Take, which is inlined: copying a Result is slow (BenchmarkTake).
func (l *Limiter) takeInto(ctx context.Context, key string, n int64, r *Result) (err error) {
	set, _, err := l.settingOf(ctx, key)
	if err != nil {
		return err
	}
	if set.one != nil && l.usable() && l.memory.takeOne(clock, key, set.one, n, true, r) {
		r.Receipt.Key = key
		if l.own == nil || l.tally != nil || l.life.Calls() {
			l.took(ctx, key, n, r)
		}
		return nil
	}
	*r, err = l.take(ctx, key, limits.Op{Kind: limits.Take, Cost: n})
	return err
}

// usable reports whether takeOne may decide. It looks itself whether a store of the limiter is closed; one that was given stays
// open when the limiter is closed.
func (l *Limiter) usable() bool { return l.own != nil || !l.closed() }

// TakeAtMost takes the available permits of a key, up to n. Result.Permits is their number. It is refused if there are none.
func (l *Limiter) TakeAtMost(ctx context.Context, key string, n int64) (Result, error) {
	return l.take(ctx, key, limits.Op{Kind: limits.TakeAtMost, Cost: n})
}

// Peek returns the state of a key, and takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Result, error) {
	set, cfg, err := l.settingOf(ctx, key)
	if err != nil {
		return Result{}, err
	}
	policy := cfg.OnStoreError
	if policy != Local {
		policy = Deny // Allow is for takes
	}
	return l.applyUnder(ctx, set, policy, key, limits.Op{})
}

// Drain takes all available permits of a key. Result.Permits is their number.
func (l *Limiter) Drain(ctx context.Context, key string) (Result, error) {
	r, err := l.apply(ctx, key, limits.Op{Kind: limits.Drain})
	r.Allowed, r.RetryAfter = err == nil, 0
	return r, err
}

// Reserve grants n permits of a key for the earliest time within maxWait, and returns at once: use them after Result.Wait. If
// maxWait is negative, there is no limit. A refusal is not an error. If the permits are not used, Refund gives them back.
//
// A window can be reserved three periods ahead. Reserve does not queue behind the callers of [Limiter.Wait], of which only the
// first has a reservation.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64, maxWait time.Duration) (Result, error) {
	if maxWait < 0 {
		maxWait = math.MaxInt64
	}
	return l.take(ctx, key, limits.Op{Kind: limits.Reserve, Cost: n, MaxWait: maxWait})
}

// Refund gives the permits of a take back. Call it at most once for each take. It does nothing for a refusal, for permits that
// have recovered since, and for a take that was counted under other numbers. It runs even if ctx is done: a store that has to
// wait has a second for it.
//
// While others hold permits that lie ahead (see [Limiter.Reserve]), only the permits behind all of them are given back. A
// window of which all is given back still ends when it would have.
func (l *Limiter) Refund(ctx context.Context, take Result) (err error) {
	if take.Permits > 0 {
		l.lines.Anew(func() { err = l.giveBack(ctx, take) }, take.Receipt.Key)
	}
	return err
}

const refundTimeout = time.Second

func (l *Limiter) giveBack(ctx context.Context, take Result) error {
	if l.own == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
		defer cancel()
	}
	all := l.current.Load()
	op := limits.Op{Kind: limits.Refund, Cost: take.Permits, Receipt: take.Receipt}
	_, err := l.applyUnder(ctx, all.main, all.OnStoreError, take.Receipt.Key, op)
	return err
}

// Reset forgets the usage of a key.
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
	} else if l.tally != nil {
		l.tally.count(r)
	}
	l.emitDecision(ctx, key, cost, r, 0)
}

func (l *Limiter) count(r *Result) {
	l.decisions.count(r)
	if l.tally != nil {
		l.tally.count(r)
	}
}

func (c *tally) count(r *Result) {
	if r.Allowed {
		c.allowed.Inc()
	} else {
		c.rejected.Inc()
	}
}
