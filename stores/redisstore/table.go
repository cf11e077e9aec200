package redisstore

import (
	"context"
	"crypto/rand"
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
	life   atomic.Int64 // ns, in which all usage of a key recovers under any of the plans
	beats  beats
}

func newTable(s *Store, name string) *table {
	t := &table{store: s, prefix: keyPrefix(s.cfg.prefix(), name), byName: map[string]*plan{}, beats: beats{id: rand.Text()}}
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
	if ctx.Err() != nil {
		return ratelimit.Result{}, &driver.UnsentError{Err: context.Cause(ctx)}
	}
	within, cancel := context.WithTimeout(ctx, t.store.cfg.timeout()) // for all that it takes
	defer cancel()
	r, err := t.decide(within, ctx, key, p, op)
	if err != nil && ctx.Done() != nil && hasEnded(ctx) {
		<-ctx.Done() // its timer may be later than that of a connection
		err = context.Cause(ctx)
	}
	t.store.counters.ended(err)
	return r, err
}

// decide has the server decide.
func (t *table) decide(ctx, caller context.Context, key string, p *plan, op driver.Op) (r ratelimit.Result, err error) {
	req := t.request(key, p, op, false)
	r, ok, err := t.store.apply(ctx, caller, req)
	if err == nil && !ok && !req.all {
		r, ok, err = t.store.apply(ctx, caller, t.request(key, p, op, true))
	}
	if err == nil && !ok {
		err = errReply
	}
	return r, err
}
