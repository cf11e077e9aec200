package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A table is the keys of one limiter. Its only state is its limits.
type table struct {
	store  *Store
	prefix string
	plans  atomic.Pointer[[]*plan] // by their numbers, from 1
	mu     sync.Mutex
	byName map[string]*plan // by the names of their parts, with spaces between them
	life   atomic.Int64     // ns, in which all usage of a key recovers under any of the plans
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
func (t *table) Plan(specs []limits.Spec) (limits.ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []*part
	for _, spec := range specs {
		one, err := newPart(spec)
		if err != nil {
			return 0, err
		}
		alone, err := t.add(one)
		if err != nil {
			return 0, err
		}
		parts = append(parts, alone.parts...)
	}
	p, err := t.add(parts...)
	if err != nil {
		return 0, err
	}
	return p.ID, nil
}

// add returns the plan of limits that apply together, and gives it a number if it is new.
func (t *table) add(parts ...*part) (*plan, error) {
	p := &plan{Plan: limits.Plan{Capacity: math.MaxInt64}, parts: parts}
	var names []string
	for _, part := range parts {
		p.Capacity, p.Rules = min(p.Capacity, part.Capacity), append(p.Rules, part.Rule)
		names = append(names, part.name)
	}
	name := strings.Join(names, " ")
	if old := t.byName[name]; old != nil {
		return old, nil
	}
	old := *t.plans.Load()
	if len(old) > math.MaxUint16 {
		return nil, errPlans
	}
	if p.ID = limits.ID(len(old)); len(parts) == 1 {
		parts[0].ID = p.ID
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
func (t *table) Apply(ctx context.Context, key string, id limits.ID, op limits.Op) (ratelimit.Result, error) {
	plans := *t.plans.Load()
	switch {
	case t.store.closed.Load():
		return ratelimit.Result{}, limits.ErrClosed
	case id == 0 || int(id) >= len(plans):
		return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", id)
	case op.Cost < 0:
		return ratelimit.Result{}, limits.CostError(op.Cost)
	}
	if c := op.Change; c != nil && (c.Plan == 0 || int(c.Plan) >= len(plans)) {
		return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", c.Plan)
	}
	p := plans[id]
	if ctx.Err() != nil {
		return ratelimit.Result{}, limits.Unsent(context.Cause(ctx), false)
	}
	within, cancel := context.WithTimeout(ctx, t.store.cfg.timeout()) // for all that it takes
	defer cancel()
	r, err := t.decide(within, ctx, key, p, op)
	if err != nil && ctx.Done() != nil && hasEnded(ctx) {
		<-ctx.Done() // its timer may be later than that of a connection
		_, unsent := limits.IsUnsent(err)
		if err = context.Cause(ctx); unsent {
			err = limits.Unsent(err, false)
		}
	}
	t.store.counters.ended(err)
	return r, err
}

// decide has the server decide.
func (t *table) decide(ctx, caller context.Context, key string, p *plan, op limits.Op) (r ratelimit.Result, err error) {
	req := t.request(key, p, op)
	r, ok, err := t.store.apply(ctx, caller, req)
	if err == nil && !ok && req.general() {
		r, ok, err = t.store.apply(ctx, caller, req)
	}
	if err == nil && !ok {
		err = errReply
	}
	return r, err
}
