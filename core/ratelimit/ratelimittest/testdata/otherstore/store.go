// Package otherstore is a store outside of the module: a map and a lock around the accounts of package
// driver.
package otherstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

var errCost = errors.New("otherstore: the cost is negative")

// A Store keeps all keys.
type Store struct {
	mu     sync.Mutex
	tables map[string]*table
	closed bool
}

// Open returns the table of that name.
func (s *Store) Open(name string) (driver.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, driver.ErrClosed
	}
	if s.tables == nil {
		s.tables = map[string]*table{}
	}
	if s.tables[name] == nil {
		s.tables[name] = &table{store: s, begun: time.Now(), plans: []*driver.Plan{nil}, keys: map[string]*key{}}
	}
	return s.tables[name], nil
}

// Close makes all tables fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

type table struct {
	store *Store
	begun time.Time
	plans []*driver.Plan
	specs [][]driver.Spec
	keys  map[string]*key
}

type key struct {
	driver.Account

	used int64 // when it was written
}

// Plan gives limits a number.
func (t *table) Plan(limits []driver.Spec) (driver.ID, error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	p := t.plan(limits)
	if p == nil {
		return 0, fmt.Errorf("otherstore: %d limits cannot be counted", len(limits))
	}
	return p.ID, nil
}

func (t *table) plan(limits []driver.Spec) *driver.Plan {
	if i := slices.IndexFunc(t.specs, func(old []driver.Spec) bool { return slices.Equal(old, limits) }); i >= 0 {
		return t.plans[i+1]
	}
	p := &driver.Plan{}
	for _, limit := range limits {
		if len(limits) > 1 {
			p.Rules = append(p.Rules, t.plan([]driver.Spec{limit}).Rules[0])
		} else {
			p.Rules = []*driver.Rule{driver.Clock{Unix: t.begun.UnixNano()}.Rule(limit)}
		}
	}
	p.ID, p.Capacity = driver.ID(len(t.plans)), p.Rules[0].Capacity
	for _, r := range p.Rules {
		p.Capacity = min(p.Capacity, r.Capacity)
	}
	if len(p.Rules) == 1 {
		p.Rules[0].ID = p.ID
	}
	t.plans, t.specs = append(t.plans, p), append(t.specs, limits)
	return p
}

// Apply does one operation.
func (t *table) Apply(_ context.Context, name string, id driver.ID, op driver.Op) (r driver.Result, err error) {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	switch {
	case t.store.closed:
		return r, driver.ErrClosed
	case id == 0 || int(id) >= len(t.plans):
		return r, fmt.Errorf("otherstore: no plan %d", id)
	case op.Cost < 0:
		return r, errCost
	}
	now, k := int64(time.Since(t.begun)), t.keys[name]
	if k == nil {
		k = &key{}
		t.keys[name] = k
	}
	next := *k
	if c := op.Change; c != nil && int64(c.At.Sub(t.begun)) >= next.used {
		next.Change(c, t.plans, int64(c.At.Sub(t.begun)))
	}
	changed := false
	switch op.Kind {
	case driver.Refund:
		changed = next.Refund(now, &op)
		r, _ = next.Decide(t.plans[id], now, &driver.Op{})
	case driver.Reset:
		next.Account, changed = driver.Account{}, true
		r, _ = next.Decide(t.plans[id], now, &driver.Op{})
	default:
		r, changed = next.Decide(t.plans[id], now, &op)
	}
	if changed {
		next.used = now
		*k = next
	}
	return r, nil
}
