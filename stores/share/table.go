package share

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A table is a table of the store that is wrapped, with the share of this process.
type table struct {
	limits.Table
	store  *Store
	counts limits.InstanceTable // nil if the store does not count
	plans  sync.Map             // limits.ID to *plan
	local  atomic.Pointer[local]
}

// A plan is one limit, or several that hold together.
type plan struct {
	id       limits.ID
	capacity int64
	limit    limits.Spec // of a plan of one
	parts    []*plan     // of one limit each: the plan itself, if it is one
	shares   sync.Map    // the number of instances to the limits.ID in memory
}

// Unwrap returns the table of the store that is wrapped.
func (t *table) Unwrap() limits.Table { return t.Table }

// Plan registers limits, and each of them alone, as which debts are charged.
func (t *table) Plan(specs []limits.Spec) (limits.ID, error) {
	id, err := t.Table.Plan(specs)
	if err != nil || t.plan(id) != nil {
		return id, err
	}
	p := &plan{id: id, capacity: math.MaxInt64}
	if len(specs) == 1 {
		p.limit, p.parts = specs[0], []*plan{p}
		p.capacity = limits.Capacity(p.limit)
	} else {
		for _, spec := range specs {
			one, err := t.Plan([]limits.Spec{spec})
			if err != nil {
				return 0, err
			}
			part := t.plan(one)
			p.capacity, p.parts = min(p.capacity, part.capacity), append(p.parts, part)
		}
	}
	t.plans.LoadOrStore(id, p)
	return id, nil
}

// plan returns a plan by its number, or nil.
func (t *table) plan(id limits.ID) *plan {
	p, _ := t.plans.Load(id)
	known, _ := p.(*plan)
	return known
}

// Apply has the store decide.
func (t *table) Apply(ctx context.Context, key string, id limits.ID, op limits.Op) (limits.Result, error) {
	if t.store.ctx.Err() != nil {
		return limits.Result{}, limits.ErrClosed
	}
	l, p := t.local.Load(), t.plan(id)
	if l == nil || p == nil || op.Cost < 0 {
		return t.Table.Apply(ctx, key, id, op)
	}
	return l.remote(ctx, key, p, op)
}

// Local returns the table that decides while the store fails, with the share of this process.
func (t *table) Local() limits.Table {
	l := &local{table: t, seed: maphash.MakeSeed()}
	m := core.Must(ratelimit.NewMemory(0))
	l.memory = core.Must(m.Open("")).(limits.OwingTable) //nolint:forcetypeassert // those of a Memory are
	l.most = maxKeys / len(l.shards)
	for i := range l.shards {
		l.shards[i].keys = map[string]*known{}
	}
	if !t.local.CompareAndSwap(nil, l) {
		return t.local.Load()
	}
	return l
}

// instances are the processes that share the limits.
type instances struct {
	n, rank int64
	now     time.Duration // of a clock that they have in common
}

func (t *table) instances() (in instances) {
	if t.counts == nil {
		return instances{int64(t.store.cfg.Instances), t.store.rank, time.Duration(time.Now().UnixNano())}
	}
	in.n, in.rank, in.now = t.counts.Instances()
	return in
}

func errPlan(id limits.ID) error { return fmt.Errorf("share: no plan %d in this table", id) }
