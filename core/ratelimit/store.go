package ratelimit

import (
	"cmp"
	"context"
	"errors"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/limits"
)

// A Store keeps the keys of limiters. The packages stores/redisstore, stores/share and stores/denycache have Stores, and [NewStore] makes
// one. Open returns an internal type of this module, so other modules cannot implement Store.
type Store interface {
	Open(name string) (limits.Table, error)
	Close() error
}

func (l *Limiter) apply(ctx context.Context, key string, op limits.Op) (Result, error) {
	set, cfg, err := l.settingOf(ctx, key)
	if err != nil {
		return Result{}, err
	}
	return l.applyUnder(ctx, set, cfg.OnStoreError, key, op)
}

func (l *Limiter) applyUnder(ctx context.Context, set *setting, policy FailurePolicy, key string, op limits.Op) (Result, error) {
	if op.Kind != limits.Refund && l.open.Err() != nil {
		return Result{}, core.ErrClosed
	}
	failures := l.failures.Load()
	r, err := l.table.Apply(ctx, key, set.plan, op)
	if recovered := l.recovered.Load(); err != nil {
		r, err = l.failed(ctx, key, set, policy, op, err)
	} else if r.Allowed && recovered < failures && l.failures.Load() == failures && l.recovered.CompareAndSwap(recovered, failures) {
		l.emitOutage(ctx, key, nil) // a refusal proves nothing: the store can return one from a cache
	}
	if r.Permits > 0 {
		r.Receipt.Key = key
	}
	return Result(r), err
}

// failed applies OnStoreError to an error of the store. Errors that the caller caused are
// returned unchanged.
func (l *Limiter) failed(
	ctx context.Context, key string, set *setting, policy FailurePolicy, op limits.Op, err error,
) (r limits.Result, _ error) {
	switch {
	case errors.Is(err, core.ErrClosed) && l.open.Err() != nil, errors.Is(err, core.ErrConfig):
		return r, err
	case op.Cost < 0:
		return r, limits.CostError(op.Cost)
	case op.Kind != limits.Refund && blame.EndedBy(ctx, err):
		return r, context.Cause(ctx)
	}
	l.failures.Add(1)
	err = &storeError{l.Name(), err}
	l.emitOutage(ctx, key, err)
	if local := l.local.Load(); policy == Local && local != nil {
		if r, failed := (*local).Apply(ctx, key, set.plan, op); failed == nil {
			l.locals.Add(1)
			return r, nil
		}
	}
	allow := cmp.Or(policy, Allow) == Allow && op.Kind <= limits.Reserve // a take of any kind
	if c := set.plan.Capacity; allow && op.Cost > c && op.Kind != limits.TakeAtMost {
		l.locals.Add(1) // a cost above the capacity needs no store, and the rejection is counted
		return limits.Result{Limit: c, RetryAfter: limits.Never, Receipt: limits.Receipt{Plan: set.plan}}, nil
	}
	l.undecided.Add(1)
	if !allow {
		return r, err
	}
	return limits.Result{Allowed: true}, nil
}
