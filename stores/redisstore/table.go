package redisstore

import (
	"context"

	"github.com/gresil/gresil/internal/limits"
)

// A table has the keys of one limiter. Its only state in this process is its limits.
type table struct {
	*limits.Plans

	store  *Store
	prefix string
	leases *leases // nil, except in Lease
}

func newTable(s *Store, name string) *table {
	t := &table{Plans: limits.NewPlans(clock, prepare), store: s, prefix: keyPrefix(s.cfg.prefix(), name)}
	if s.mode() == Lease {
		t.leases = newLeases(t)
	}
	return t
}

// keyName returns the name of a key in the server.
func (t *table) keyName(key string) string { return keyName(t.prefix, key, t.store.cfg.HashKeys) }

// Apply carries out one operation on one key.
func (t *table) Apply(ctx context.Context, key string, p *limits.Plan, op limits.Op) (limits.Result, error) {
	switch {
	case t.store.closed.Load():
		return limits.Result{}, limits.ErrClosed
	case op.Cost < 0:
		return limits.Result{}, limits.CostError(op.Cost)
	}
	if ctx.Err() != nil {
		return limits.Result{}, limits.Unsent(context.Cause(ctx), false)
	}
	r, ok, err := t.decide(ctx, key, p, op)
	if err == nil && !ok {
		err = errReply
	}
	counted := err
	if err != nil && ctx.Done() != nil && hasEnded(ctx) {
		<-ctx.Done() // its timer can fire later than that of a connection
		_, unsent := limits.IsUnsent(err)
		if err, counted = context.Cause(ctx), ctx.Err(); unsent {
			err = limits.Unsent(err, false)
		}
	}
	t.store.counters.ended(counted)
	return r, err
}

// decide carries out an operation within Timeout. ok is false if the value of its key could not be read.
func (t *table) decide(ctx context.Context, key string, p *limits.Plan, op limits.Op) (r limits.Result, ok bool, err error) {
	if t.leases != nil && op.Kind == limits.Take && op.Cost > 0 && op.Cost <= p.Capacity {
		return t.leases.take(ctx, key, p, op)
	}
	if t.leases != nil && op.Kind == limits.Refund {
		if r, ok = t.leases.refund(key, &op); ok {
			return r, ok, nil
		}
	}
	if r, ok, err = t.ask(ctx, key, p, op); t.leases != nil && ok {
		t.leases.after(key, p, &op, &r)
	}
	return r, ok, err
}

// ask has the server carry out an operation.
func (t *table) ask(ctx context.Context, key string, p *limits.Plan, op limits.Op) (r limits.Result, ok bool, err error) {
	req := t.request(key, planOf(p), op)
	defer req.free()
	return t.store.apply(ctx, req)
}
