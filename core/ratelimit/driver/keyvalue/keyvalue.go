// Package keyvalue makes the tables of a store that keeps a value for each key: a map, a row, a
// cell of a database. The store reads and writes bytes; the arithmetic of all algorithms is here.
//
//	func (s *Store) Open(name string) (limits.Table, error) {
//		return keyvalue.Table(values{s, name}), nil
//	}
package keyvalue

import (
	"cmp"
	"context"
	"time"

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
func Table(v Values) limits.Table { return &table{limits.NewPlans(limits.Clock{}, nil), v} }

type table struct {
	*limits.Plans

	values Values
}

// Apply does one operation on one key.
func (t *table) Apply(ctx context.Context, key string, p *limits.Plan, op limits.Op) (r limits.Result, err error) {
	if op.Cost < 0 {
		return r, limits.CostError(op.Cost)
	}
	var unreadable error
	err = t.values.Update(ctx, key, func(now time.Time, value []byte) (next []byte, keep time.Duration) {
		k, at := limits.Key{Now: now.UnixNano()}, int64(0)
		if unreadable = nil; len(value) > 0 {
			if k.Account, at, unreadable = t.Decode(value); unreadable != nil {
				return nil, 0
			}
		}
		k.Now = max(k.Now, at)
		k.Expire(k.Now - at)
		if r = k.Apply(p, &op); !k.Changed {
			return nil, 0
		}
		if keep = time.Duration(k.End(k.Now) - k.Now); keep <= 0 {
			return []byte{}, 0
		}
		return k.Encode(k.Now), keep
	})
	return r, cmp.Or(unreadable, err)
}
