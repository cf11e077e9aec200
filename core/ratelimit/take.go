package ratelimit

import (
	"context"
	"math"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A Result is the decision about one operation, and the state of the key after it. All durations begin at the decision.
type Result struct {
	Allowed bool  // true for a cost of 0 too
	Permits int64 // the number taken; 0 after a refusal

	// Limit is the capacity of the limit, and Remaining the permits that are left. Limit is 0 if the store failed and the
	// operation was allowed.
	Limit, Remaining int64
	// Which is the index of the limit that decided, among those joined by And: the one that refuses for longest, or that has the fewest
	// permits left.
	Which int
	// RetryAfter is how long to wait until the same operation will be allowed, if nobody else takes permits; waiting exactly that long is
	// enough. It is 0 if the operation was allowed, and negative if it can never be allowed.
	RetryAfter time.Duration
	// NextAfter is the time until another permit is available, and FullAfter the time until all are.
	NextAfter, FullAfter time.Duration
	// Wait is how long Wait has waited, or the time until the permits of Reserve can be used.
	Wait time.Duration

	Receipt limits.Receipt // identifies the take, for Refund
}

// Take takes n permits of a key now, or none. A refusal is not an error: check Result.Allowed. Taking 0 takes nothing, and
// is allowed.
//
// An error means that no decision was made: n is negative, the limiter is closed, or the store failed and OnStoreError
// is not Allow.
func (l *Limiter) Take(ctx context.Context, key string, n int64) (r Result, err error) {
	err = l.takeInto(ctx, key, n, &r)
	return r, err
}

// takeInto does what Take does, so that Take can be inlined: copying a Result is slow (BenchmarkTake).
func (l *Limiter) takeInto(ctx context.Context, key string, n int64, r *Result) (err error) {
	set, _, err := l.settingOf(ctx, key)
	if err != nil {
		return err
	}
	counts := l.name == "" // a named limit has a tally
	if set.one != nil && l.memory.TakeOne(key, set.one, n, true, counts, (*limits.Result)(r)) {
		r.Receipt.Key = key
		if !counts || l.life.Calls() {
			l.decided(ctx, key, n, r, 0, counts)
		}
		return nil
	}
	*r, err = l.take(ctx, key, limits.Op{Kind: limits.Take, Cost: n})
	return err
}

// TakeAtMost takes the available permits of a key, up to n. Result.Permits is the number taken. It is refused if none is available.
func (l *Limiter) TakeAtMost(ctx context.Context, key string, n int64) (Result, error) {
	return l.take(ctx, key, limits.Op{Kind: limits.TakeAtMost, Cost: n})
}

// Peek returns the state of a key, and takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Result, error) {
	return l.apply(ctx, key, limits.Op{Kind: limits.Check})
}

// Drain takes all available permits of a key. Result.Permits is the number taken.
func (l *Limiter) Drain(ctx context.Context, key string) (Result, error) {
	r, err := l.apply(ctx, key, limits.Op{Kind: limits.Drain})
	r.Allowed, r.RetryAfter = err == nil, 0
	l.decided(ctx, key, r.Permits, &r, 0, false)
	return r, err
}

// Reserve grants n permits of a key for the earliest possible time, and returns at once: use them after Result.Wait. It refuses if that
// would be longer than maxWait; if maxWait is negative, there is no limit. A refusal is not an error. If you do not use the permits, Refund
// gives them back.
//
// A window can be reserved three periods ahead. Reserve does not queue behind the callers of [Limiter.Wait], of which only the
// first has a reservation.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64, maxWait time.Duration) (Result, error) {
	if maxWait < 0 {
		maxWait = math.MaxInt64
	}
	return l.take(ctx, key, limits.Op{Kind: limits.Reserve, Cost: n, MaxWait: maxWait})
}

// Refund gives back the permits of a take. Call it at most once for each take, and not after a Reset of the key: it could give back
// permits of later takes. It does nothing for a refusal, permits that have recovered since, a take that was counted under another limit,
// or a reservation that was the first take under a new limit which is a bucket, has another algorithm or period, or is a window with more
// in use than it allows. It runs even if ctx is done; a Store has a second for it.
//
// While there are reservations for later times (see [Limiter.Reserve]), only permits that lie after all of them are
// given back. A window whose permits are all given back still ends at the same time.
func (l *Limiter) Refund(ctx context.Context, take Result) (err error) {
	if take.Permits > 0 {
		l.lines.AnewOf(take.Receipt.Key, func() { err = l.giveBack(ctx, take) })
	}
	return err
}

const refundTimeout = time.Second

func (l *Limiter) giveBack(ctx context.Context, take Result) error {
	if l.memory == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
		defer cancel()
	}
	all := l.current.Load()
	op := limits.Op{Kind: limits.Refund, Cost: take.Permits, Receipt: take.Receipt}
	_, err := l.applyUnder(ctx, all.main, all.OnStoreError, take.Receipt.Key, op)
	return err
}

// Reset forgets the usage of a key, except for usage that was kept when the key was evicted (see Config.MaxKeys).
func (l *Limiter) Reset(ctx context.Context, key string) (err error) {
	l.lines.AnewOf(key, func() { _, err = l.apply(ctx, key, limits.Op{Kind: limits.Reset}) })
	return err
}

func (l *Limiter) take(ctx context.Context, key string, op limits.Op) (Result, error) {
	r, err := l.apply(ctx, key, op)
	if err == nil {
		l.decided(ctx, key, op.Cost, &r, 0, false)
	}
	return r, err
}
