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

// Slow is a store that takes a time for each operation, or until its context ends.
type Slow struct {
	ratelimit.Store
	delay atomic.Int64
}

// NewSlow returns a slow store over another one.
func NewSlow(s ratelimit.Store, delay time.Duration) *Slow {
	slow := &Slow{Store: s}
	slow.Set(delay)
	return slow
}

// Set changes the time that the operations that follow take.
func (s *Slow) Set(delay time.Duration) { s.delay.Store(int64(delay)) }

// Open opens a slow table.
func (s *Slow) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return &table{t, func(ctx context.Context) error {
		over, cancel := context.WithTimeout(ctx, time.Duration(s.delay.Load()))
		defer cancel()
		<-over.Done()
		return context.Cause(ctx)
	}}, err
}

// ErrDown is the error of a [Failing] store while it is down.
var ErrDown = limits.Unsent(errors.New("down"), false)

// Failing is a store that can be taken down and up again. It starts up.
type Failing struct {
	ratelimit.Store
	down atomic.Bool
}

// Down makes every operation fail with [ErrDown].
func (s *Failing) Down() { s.down.Store(true) }

// Up ends that.
func (s *Failing) Up() { s.down.Store(false) }

// Open opens a table, also while the store is down.
func (s *Failing) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return &table{t, func(context.Context) error {
		if s.down.Load() {
			return ErrDown
		}
		return nil
	}}, err
}

// A table has a step before each operation, which can fail.
type table struct {
	limits.Table
	before func(context.Context) error
}

// Apply does the operation after the step.
func (t *table) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	if err := t.before(ctx); err != nil {
		return limits.Result{}, err
	}
	return t.Table.Apply(ctx, key, plan, op)
}

// Unwrap returns the table.
func (t *table) Unwrap() limits.Table { return t.Table }
