package ratelimittest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

// Slow is a store that takes Delay for each operation, or until its context ends.
type Slow struct {
	ratelimit.Store
	Delay time.Duration // from the start; see Set
	set   atomic.Pointer[time.Duration]
}

// Set changes the delay of the operations that follow.
func (s *Slow) Set(delay time.Duration) { s.set.Store(&delay) }

// Open opens a slow table.
func (s *Slow) Open(name string) (driver.Table, error) {
	t, err := s.Store.Open(name)
	return slowTable{t, s}, err
}

type slowTable struct {
	driver.Table
	store *Slow
}

// Apply waits, then does the operation.
func (t slowTable) Apply(ctx context.Context, key string, plan driver.ID, op driver.Op) (ratelimit.Result, error) {
	delay := t.store.Delay
	if d := t.store.set.Load(); d != nil {
		delay = *d
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ratelimit.Result{}, context.Cause(ctx)
	}
	return t.Table.Apply(ctx, key, plan, op)
}

// ErrDown is the error of a [Failing] store while it is down.
var ErrDown error = &driver.UnsentError{Err: errors.New("ratelimittest: store is down")}

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
func (s *Failing) Open(name string) (driver.Table, error) {
	t, err := s.Store.Open(name)
	return failingTable{t, s}, err
}

type failingTable struct {
	driver.Table
	store *Failing
}

// Apply does the operation, or fails.
func (t failingTable) Apply(ctx context.Context, key string, plan driver.ID, op driver.Op) (ratelimit.Result, error) {
	if t.store.down.Load() {
		return ratelimit.Result{}, ErrDown
	}
	return t.Table.Apply(ctx, key, plan, op)
}

// Unwrap returns the table.
func (t slowTable) Unwrap() driver.Table { return t.Table }

// Unwrap returns the table.
func (t failingTable) Unwrap() driver.Table { return t.Table }
