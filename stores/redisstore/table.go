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
)

// A table is the keys of one limiter. It holds no state but the limits that it was told.
type table struct {
	store   *Store
	prefix  string
	plans   atomic.Pointer[[]*plan] // by their numbers, from 1
	mu      sync.Mutex
	byLimit map[ratelimit.Limit]*plan
	local   atomic.Pointer[local] // decides while the server is away
}

func newTable(s *Store, name string) *table {
	t := &table{store: s, prefix: keyPrefix(s.cfg.prefix(), name), byLimit: map[ratelimit.Limit]*plan{}}
	t.plans.Store(&[]*plan{nil})
	return t
}

var errPlans = errors.New("redisstore: a table knows at most 65535 different limits")

// Plan makes a limit known. What Redis cannot count is a [*core.ConfigError].
func (t *table) Plan(limit ratelimit.Limit) (ratelimit.PlanID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := limit.All()
	for i, l := range all {
		all[i] = resolved(l)
	}
	parts := make([]*part, len(all))
	for i, l := range all {
		p, err := t.part(l)
		if err != nil {
			return 0, err
		}
		parts[i] = p
	}
	if len(parts) == 1 {
		return parts[0].id, nil
	}
	joined := all[0]
	for _, l := range all[1:] {
		joined = joined.And(l)
	}
	p, err := t.add(joined, &plan{capacity: limit.Capacity(), parts: parts})
	if err != nil {
		return 0, err
	}
	return p.id, nil
}

// part makes a single limit known.
func (t *table) part(l ratelimit.Limit) (*part, error) {
	if l.Custom == nil {
		if p := t.byLimit[l]; p != nil {
			return p.parts[0], nil
		}
	}
	first, err := newPart(l)
	if err != nil {
		return nil, err
	}
	if _, err := t.add(l, &plan{capacity: first.permits, parts: []*part{first}}); err != nil {
		return nil, err
	}
	return first, nil
}

// add gives a plan its number, or returns the one that is there.
func (t *table) add(l ratelimit.Limit, p *plan) (*plan, error) {
	if old := t.byLimit[l]; old != nil {
		return old, nil
	}
	old := *t.plans.Load()
	if len(old) > math.MaxUint16 {
		return nil, errPlans
	}
	p.id = ratelimit.PlanID(len(old))
	if len(p.parts) == 1 {
		p.parts[0].id = p.id
	}
	plans := append(old, p) // who has read the old slice does not look beyond its end
	t.plans.Store(&plans)
	t.byLimit[l] = p
	return p, nil
}

// keyName is the name of a key in the server.
func (t *table) keyName(key string) string { return keyName(t.prefix, key, t.store.cfg.HashKeys) }

// Apply does one operation on one key.
func (t *table) Apply(ctx context.Context, key string, id ratelimit.PlanID, op ratelimit.Op) (ratelimit.Result, error) {
	plans := *t.plans.Load()
	switch {
	case t.store.closed.Load():
		return ratelimit.Result{}, ratelimit.ErrClosed
	case id == 0 || int(id) >= len(plans):
		return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", id)
	case op.Cost < 0:
		return ratelimit.Result{}, &core.ConfigError{Field: "ratelimit cost", Value: op.Cost, Reason: "must be >= 0 (0 only looks)"}
	}
	for _, was := range op.Past {
		if was.Plan == 0 || int(was.Plan) >= len(plans) {
			return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", was.Plan)
		}
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

// decide has the server decide. The request that it returns without an error is the one that the
// server decided.
func (t *table) decide(ctx, caller context.Context, key string, p *plan, op ratelimit.Op) (r ratelimit.Result, req *request, err error) {
	req = t.request(key, p, op, false)
	r, ok, err := t.store.apply(ctx, caller, req)
	if err == nil && !ok && req.width > 0 {
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
