// Package keyvalue makes the tables of a store that keeps a value for each key: a map, a row, a
// cell of a database. The store reads and writes bytes; the arithmetic of all algorithms is here.
//
//	func (s *Store) Open(name string) (driver.Table, error) {
//		return keyvalue.Table(values{s, name}), nil
//	}
package keyvalue

import (
	"cmp"
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/limits"
)

// Values keeps a value for each key of one table. It is used by many goroutines at once.
type Values interface {
	// Update calls f with the time and the value of a key, nil if there is none, and keeps the
	// value that f returns for as long as f returns, or longer. If it is nil, nothing changes; if
	// it has no bytes, the key can be dropped. All of it is one atomic step: if another update of
	// the key came in between, Update calls f again. The time comes from one clock for all
	// processes that share the values.
	Update(ctx context.Context, key string, f func(now time.Time, value []byte) (next []byte, keep time.Duration)) error
}

// Table makes the table of a limiter.
func Table(v Values) driver.Table {
	return &table{values: v, plans: limits.NewPlans(limits.Clock{})}
}

type table struct {
	values Values
	plans  *limits.Plans
}

// Plan registers limits that apply together.
func (t *table) Plan(specs []driver.Spec) (driver.ID, error) {
	p, err := t.plans.Add(specs)
	if err != nil {
		return 0, err
	}
	return p.ID, nil
}

// Apply does one operation on one key.
func (t *table) Apply(ctx context.Context, key string, id driver.ID, op driver.Op) (r driver.Result, err error) {
	p, err := t.plans.Get(id)
	switch {
	case err != nil:
		return r, err
	case op.Cost < 0:
		return r, &core.ConfigError{Field: "ratelimit cost", Value: op.Cost, Reason: "must be >= 0 (0 only looks)"}
	}
	var unreadable error
	err = t.values.Update(ctx, key, func(clock time.Time, value []byte) (next []byte, keep time.Duration) {
		now := clock.UnixNano()
		var account limits.Account
		var at int64
		if len(value) > 0 {
			if account, at, unreadable = t.plans.Decode(value, now); unreadable != nil {
				return nil, 0
			}
		}
		now = max(now, at)
		if c := op.Change; c != nil && c.At.UnixNano() >= at {
			account.Change(c, t.plans.All(), min(now, c.At.UnixNano()))
		}
		var changed bool
		if r, changed = account.Apply(p, now, &op); !changed {
			return nil, 0
		}
		if keep = time.Duration(account.End(now) - now); keep <= 0 {
			return []byte{}, 0
		}
		return account.Append(nil, now), keep
	})
	if err = cmp.Or(unreadable, err); err != nil {
		return driver.Result{}, err
	}
	return r, nil
}
