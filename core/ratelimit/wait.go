package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/waitq"
)

// Wait takes n permits of a key as soon as they are available, and then returns. It returns a [*LimitedError] at once if they will not be
// available within MaxWait or before the deadline of ctx, or if MaxQueue would be exceeded. If ctx ends during the wait, nothing is taken,
// and the error is the cause of ctx.
//
// The waiters of a key are served in the order of their calls. Only the first of them reserves permits, so a caller that gives up delays no
// other. (If permits become available faster than a Store answers, as many waiters reserve as are served during one answer.) Whether a
// later caller is refused depends on an estimate, which assumes that no waiter leaves and that other processes take nothing. If the
// estimate was too low, the caller is refused later, after MaxWait at the latest. A refund, a reset and a new Config of this process apply
// at once.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	set, cfg, err := l.settingOf(ctx, key)
	if err != nil {
		return Result{}, err
	}
	most := waitq.Within(ctx, cfg.MaxWait)
	var r Result
	if n <= 0 || n > set.plan.Capacity || !l.lines.Has(key) {
		counts := l.name == ""
		if set.one != nil && l.memory.TakeOne(key, set.one, n, false, counts, (*limits.Result)(&r)) {
			r.Receipt.Key = key
			l.decided(ctx, key, n, &r, 0, counts)
			return r, nil
		}
		if r, err = l.apply(ctx, key, limits.Op{Kind: limits.Take, Cost: n}); err != nil {
			return Result{}, err
		}
		if r.Allowed || r.RetryAfter < 0 || r.RetryAfter > most || n > set.room(cfg) {
			return l.waited(ctx, key, n, r)
		}
	}
	if r, err = l.line(ctx, set, cfg, strings.Clone(key), n, most, r.RetryAfter); err != nil {
		return Result{}, err
	}
	return l.waited(ctx, key, n, r)
}

// waited reports the decision about a wait.
func (l *Limiter) waited(ctx context.Context, key string, n int64, r Result) (Result, error) {
	l.decided(ctx, key, n, &r, r.Wait, false)
	if !r.Allowed {
		return r, &LimitedError{Name: l.Name(), Limit: l.name, Key: strings.Clone(key), Result: r}
	}
	return r, nil
}

// line waits in the queue of a key.
func (l *Limiter) line(ctx context.Context, set *setting, cfg *Config, key string, n int64, most, hint time.Duration) (Result, error) {
	start := time.Now()
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	slot, err := l.lines.Wait(ctx, l.open.Done(), key, most, &waitq.Caller[Result]{
		Weight: n, Every: set.every(n), Room: set.room(cfg), Hint: hint, After: set.after,
		Reserve: func(ctx context.Context, most time.Duration) (waitq.Slot[Result], error) {
			r, err := l.apply(ctx, key, limits.Op{Kind: limits.Reserve, Cost: n, MaxWait: most})
			at := time.Now().Add(r.Wait + r.RetryAfter)
			if r.RetryAfter < 0 {
				at = time.Time{}
			}
			return waitq.Slot[Result]{Value: r, At: at, Refused: !r.Allowed, Free: r.Allowed && r.Limit == 0}, err
		},
		Return: func(r Result) { _ = l.giveBack(ctx, r) }, // if the store fails, they recover with time
		Refuse: func(after time.Duration) Result {
			full := set.every(set.plan.Capacity)
			r := Result{Limit: set.plan.Capacity, RetryAfter: after, NextAfter: after, FullAfter: after + min(full, math.MaxInt64-after)}
			r.Receipt.Plan = set.plan
			r.Which = set.plan.Smallest()
			return r
		},
		Queued: func() { l.emitCall(ctx, key, n, "waiting for permits") },
	})
	waited := time.Since(start)
	switch r := &slot.Value; {
	case errors.Is(err, ErrStore): // counted by failed
	case err != nil:
		l.canceled.Add(1)
		l.waits[1].Observe(waited)
		l.emitCall(ctx, key, n, "wait for permits canceled", slog.Duration("waited", waited), slog.Any("err", err))
	case r.Allowed:
		since := time.Since(slot.At.Add(-r.Wait)) // the reservation
		r.NextAfter, r.FullAfter = max(0, r.NextAfter-since), max(0, r.FullAfter-since)
		r.Wait = waited
		l.waits[0].Observe(waited)
	}
	return slot.Value, err
}

// room returns how many permits may be waited for.
func (s *setting) room(cfg *Config) int64 { return cmp.Or(cfg.MaxQueue, max(1000, 2*s.plan.Capacity)) }

// after returns the time between two grants to an exhausted key: of first permits, and then of more.
func (s *setting) after(first, more int64) time.Duration {
	return s.spread(func(l limits.Spec) int64 {
		if l.Algorithm == limits.TokenBucket {
			return more
		}
		return (first + more - 1) / l.Permits * l.Permits // windows give all at once
	})
}

// every returns the time in which the limit gives n permits, on average.
func (s *setting) every(n int64) time.Duration { return s.spread(func(limits.Spec) int64 { return n }) }

// spread returns the longest of the times in which the joined limits give their number of permits, rounded up, and at most 2^62.
func (s *setting) spread(permits func(limits.Spec) int64) (longest time.Duration) {
	for _, r := range s.plan.Rules {
		d, _ := limits.MulDiv(max(0, permits(r.Spec)), int64(r.Spec.Period), r.Spec.Permits, 1<<62)
		longest = max(longest, time.Duration(d))
	}
	return longest
}

// Do waits for one permit of a key, and then runs operation.
func Do[T any](ctx context.Context, l *Limiter, key string, operation func(context.Context) (T, error)) (T, error) {
	if _, err := l.Wait(ctx, key, 1); err != nil {
		return *new(T), err
	}
	return operation(ctx)
}

// Run waits for one permit of the key "", and then runs the inner mechanisms and the operation. It makes the limiter a
// [core.Mechanism].
func (l *Limiter) Run(ctx context.Context, next core.Next) (any, error) {
	return Do(ctx, l, "", next.Run)
}
