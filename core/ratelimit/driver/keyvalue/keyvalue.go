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
func Table(v Values) limits.Table { return &table{limits.NewPlans(limits.Clock{}), v} }

type table struct {
	*limits.Plans

	values Values
}

// Apply does one operation on one key.
func (t *table) Apply(ctx context.Context, key string, id limits.ID, op limits.Op) (r limits.Result, err error) {
	p, err := t.For(id, op.Cost)
	if err != nil {
		return r, err
	}
	err = t.update(ctx, key, op.Change, func(k *limits.Key) { r, _ = k.Apply(p, &op) })
	return r, err
}

// update calls f with a key, carried over as of a change, and writes the key if f has changed it.
func (t *table) update(ctx context.Context, key string, change *limits.Change, f func(k *limits.Key)) error {
	var unreadable error
	err := t.values.Update(ctx, key, func(now time.Time, value []byte) (next []byte, keep time.Duration) {
		unreadable = nil
		k, at := limits.Key{Now: now.UnixNano()}, int64(0)
		if len(value) > 0 {
			if k.Account, at, unreadable = t.Decode(value); unreadable != nil {
				return nil, 0
			}
		}
		k.Now = max(k.Now, at)
		if change != nil && change.At.UnixNano() >= at {
			moment := min(k.Now, change.At.UnixNano())
			k.Expire(moment-at, moment)
			k.Touch(moment)
			k.Change(change, t.All(), moment)
			at = moment
		}
		k.Expire(k.Now-at, k.Now)
		f(&k)
		if !k.Changed {
			return nil, 0
		}
		if keep = time.Duration(k.End(k.Now) - k.Now); keep <= 0 {
			return []byte{}, 0
		}
		return k.Encode(k.Now), keep
	})
	return cmp.Or(unreadable, err)
}
