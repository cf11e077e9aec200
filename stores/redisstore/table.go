package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// A table is the keys of one limiter. Its only state is its limits.
type table struct {
	store  *Store
	prefix string
	plans  atomic.Pointer[[]*plan] // by their numbers, from 1
	mu     sync.Mutex
	byName map[string]*plan
	life   atomic.Int64          // ns, in which all usage of a key recovers under any of the plans
	local  atomic.Pointer[local] // decides while the server is unavailable
}

func newTable(s *Store, name string) *table {
	t := &table{store: s, prefix: keyPrefix(s.cfg.prefix(), name), byName: map[string]*plan{}}
	t.plans.Store(&[]*plan{nil})
	return t
}

var errPlans = errors.New("redisstore: a table knows at most 65535 different limits")

// Plan registers limits that apply together. A limit that Redis cannot count is a
// [*core.ConfigError].
func (t *table) Plan(specs []driver.Spec) (driver.ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, names := &plan{Plan: limits.Plan{Capacity: math.MaxInt64}}, ""
	for _, spec := range specs {
		one, err := t.single(spec)
		if err != nil {
			return 0, err
		}
		if len(specs) == 1 {
			return one.ID, nil
		}
		part := one.parts[0]
		p.parts, p.Rules = append(p.parts, part), append(p.Rules, part.Rule)
		p.Capacity, names = min(p.Capacity, part.Capacity), names+part.name+" "
	}
	p, err := t.add(names, p)
	if err != nil {
		return 0, err
	}
	return p.ID, nil
}

// single registers one limit.
func (t *table) single(spec driver.Spec) (*plan, error) {
	one, err := newPart(spec)
	if err != nil {
		return nil, err
	}
	return t.add(one.name, &plan{Plan: limits.Plan{Capacity: one.Capacity, Rules: []*limits.Rule{one.Rule}}, parts: []*part{one}})
}

// add gives a plan its number, or returns the one that is there.
func (t *table) add(name string, p *plan) (*plan, error) {
	if old := t.byName[name]; old != nil {
		return old, nil
	}
	old := *t.plans.Load()
	if len(old) > math.MaxUint16 {
		return nil, errPlans
	}
	if p.ID = driver.ID(len(old)); len(p.parts) == 1 {
		p.parts[0].ID = p.ID
	}
	plans := append(old, p) // a reader of the old slice does not look beyond its end
	t.plans.Store(&plans)
	t.byName[name] = p
	for _, r := range p.Rules {
		t.life.Store(max(t.life.Load(), int64(r.Longest())))
	}
	return p, nil
}

// partNamed is a single limit that is known by its name in the scripts, or nil.
func (t *table) partNamed(name string) *part {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byName[name]; p != nil {
		return p.parts[0]
	}
	return nil
}

// keyName is the name of a key in the server.
func (t *table) keyName(key string) string { return keyName(t.prefix, key, t.store.cfg.HashKeys) }

// Apply does one operation on one key.
func (t *table) Apply(ctx context.Context, key string, id driver.ID, op driver.Op) (ratelimit.Result, error) {
	plans := *t.plans.Load()
	switch {
	case t.store.closed.Load():
		return ratelimit.Result{}, ratelimit.ErrClosed
	case id == 0 || int(id) >= len(plans):
		return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", id)
	case op.Cost < 0:
		return ratelimit.Result{}, &core.ConfigError{Field: "ratelimit cost", Value: op.Cost, Reason: "must be >= 0 (0 only looks)"}
	}
	if c := op.Change; c != nil && (c.Plan == 0 || int(c.Plan) >= len(plans)) {
		return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", c.Plan)
	}
	p := plans[id]
	denied, refused, asked := t.store.denials.refuse(t.prefix, key, p, op)
	if refused && ctx.Err() == nil {
		t.store.counters.denied.Inc()
		return denied, nil
	}
	if ctx.Err() != nil {
		return ratelimit.Result{}, context.Cause(ctx)
	}
	within, cancel := context.WithTimeout(ctx, t.store.cfg.timeout()) // for all that it takes
	defer cancel()
	var (
		r   ratelimit.Result
		err error
	)
	if l := t.local.Load(); l != nil {
		r, err = l.remote(within, ctx, key, p, op)
	} else {
		r, _, err = t.decide(within, ctx, key, p, op)
	}
	if err != nil && ctx.Done() != nil && hasEnded(ctx) {
		<-ctx.Done() // its timer may be later than that of a connection
		err = context.Cause(ctx)
	}
	t.store.counters.ended(err)
	t.store.denials.ended(t.prefix, key, op)
	if err == nil {
		t.store.denials.learn(asked, t.prefix, key, p, op.Cost, r)
	}
	return r, err
}

// decide has the server decide. Without an error, it returns the request that the server decided.
func (t *table) decide(ctx, caller context.Context, key string, p *plan, op driver.Op) (r ratelimit.Result, req *request, err error) {
	req = t.request(key, p, op, false)
	r, ok, err := t.store.apply(ctx, caller, req)
	if err == nil && !ok && !req.all {
		req = t.request(key, p, op, true)
		r, ok, err = t.store.apply(ctx, caller, req)
	}
	switch {
	case err != nil:
		return r, nil, err // req may still be on its way
	case !ok:
		return r, nil, errReply
	}
	return r, req, nil
}
