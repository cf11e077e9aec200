package ratelimittest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limits/memory"
)

// Memory is a store in the memory of the process. A name is always the same table.
type Memory struct{ tables sync.Map }

// Open opens a table.
func (m *Memory) Open(name string) (limits.Table, error) {
	t, ok := m.tables.Load(name)
	if !ok {
		t, _ = m.tables.LoadOrStore(name, memory.New(0))
	}
	return t.(*memory.Table), nil //nolint:forcetypeassert // nothing else is stored
}

// Close closes all tables.
func (m *Memory) Close() error {
	m.tables.Range(func(_, t any) bool {
		t.(*memory.Table).Close() //nolint:forcetypeassert // nothing else is stored
		return true
	})
	return nil
}

// ErrDown is the error of a [Failing] store while it is down.
var ErrDown = limits.Unsent(errors.New("down"), false)

// Failing is a store that can be taken down and up again, and that can be slow. It starts up, and fast.
type Failing struct {
	ratelimit.Store
	down  atomic.Bool
	delay atomic.Int64
}

// Down makes every operation fail with [ErrDown].
func (s *Failing) Down() { s.down.Store(true) }

// Up ends that.
func (s *Failing) Up() { s.down.Store(false) }

// Delay sets the time that each operation takes from now on, unless its context ends.
func (s *Failing) Delay(d time.Duration) { s.delay.Store(int64(d)) }

// Open opens a table, also while the store is down.
func (s *Failing) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return &table{t, s}, err
}

type table struct {
	limits.Table
	store *Failing
}

// Apply does the operation when its time is over, unless the store is down.
func (t *table) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	if t.store.down.Load() {
		return limits.Result{}, ErrDown
	}
	if d := time.Duration(t.store.delay.Load()); d > 0 {
		over, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		if <-over.Done(); ctx.Err() != nil {
			return limits.Result{}, context.Cause(ctx)
		}
	}
	return t.Table.Apply(ctx, key, plan, op)
}

// Unwrap returns the table.
func (t *table) Unwrap() limits.Table { return t.Table }
