package share

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limits/memory"
)

// A table is a table of the wrapped store, with the share of this process.
type table struct {
	*limits.Plans // each of several joined limits is prepared alone too, since debts are kept by limit

	inner  limits.Table
	store  *sharer
	counts limits.InstanceTable // nil if the store does not count instances
	local  atomic.Pointer[local]
}

// A plan is one limit, or several joined ones.
type plan struct {
	at       *limits.Plan // the plan of the wrapped store
	capacity int64
	limit    limits.Spec // of a plan with one limit
	parts    []*plan     // plans of one limit each; the plan itself if it has one limit
	shares   sync.Map    // from the number of instances to the *limits.Plan in memory
}

// Unwrap returns the table of the wrapped store.
func (t *table) Unwrap() limits.Table { return t.inner }

func (t *table) prepare(of *limits.Plan) (err error) {
	p := &plan{capacity: of.Capacity}
	var specs []limits.Spec
	for _, r := range of.Rules {
		specs = append(specs, r.Spec)
		if len(of.Rules) > 1 {
			p.parts = append(p.parts, planOf(r.Alone()))
		}
	}
	if len(specs) == 1 {
		p.limit, p.parts = specs[0], []*plan{p}
	}
	p.at, err = t.inner.Plan(specs)
	of.Store = p
	return err
}

func planOf(p *limits.Plan) *plan { return p.Store.(*plan) } //nolint:forcetypeassert // see prepare

// Apply has the store decide.
func (t *table) Apply(ctx context.Context, key string, of *limits.Plan, op limits.Op) (limits.Result, error) {
	if t.store.ctx.Err() != nil {
		return limits.Result{}, limits.ErrClosed
	}
	p := planOf(of)
	if l := t.local.Load(); l != nil && op.Cost >= 0 {
		return l.remote(ctx, key, p, op)
	}
	return t.inner.Apply(ctx, key, p.at, op)
}

// Local returns the table that decides while the store fails, with the share of this process.
func (t *table) Local() limits.Table {
	l := &local{table: t, seed: maphash.MakeSeed(), memory: memory.New(0), most: maxKeys / len(local{}.shards)}
	for i := range l.shards {
		l.shards[i].keys = map[string]*known{}
	}
	t.local.CompareAndSwap(nil, l)
	return t.local.Load()
}

// instances are the processes that share the limits.
type instances struct {
	n, rank int64
	now     time.Duration // of a clock that they share
}

func (t *table) instances() (in instances) {
	if t.counts == nil {
		return instances{int64(t.store.cfg.Instances), t.store.rank, time.Duration(time.Now().UnixNano())}
	}
	in.n, in.rank, in.now = t.counts.Instances()
	return in
}
