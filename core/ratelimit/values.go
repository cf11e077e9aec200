package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/validate"
)

// Values keep bytes by key, for example in a table of a database. [NewStore] makes a Store of them. They must be safe
// for concurrent use.
type Values interface {
	// Update replaces the value of a key by the result of f in one atomic step: no other Update of the key may come between reading old and
	// writing next. old is nil for a key without a value. now is the time of a clock that all processes share, such as that of the database. f
	// is fast and has no side effects; call it again if the step has to be repeated.
	//
	// If next is nil, write nothing. Otherwise the value is needed until now + keep, and can be deleted after that; if
	// keep is 0, delete the value. An error means that the outcome of the step is not known.
	Update(ctx context.Context, key string, f func(now time.Time, old []byte) (next []byte, keep time.Duration)) error
}

// NewStore makes a Store of Values. Closing the Store does not affect the Values.
func NewStore(values Values) Store { return &valueStore{values: values} }

type valueStore struct {
	values Values
	tables sync.Map // *valueTable, by name
	closed atomic.Bool
}

func (s *valueStore) Open(name string) (limits.Table, error) {
	switch {
	case identity.Missing(s.values):
		return nil, validate.Bad("ratelimit values", nil, "must not be nil")
	case s.closed.Load():
		return nil, limits.ErrClosed
	}
	t, _ := s.tables.LoadOrStore(name, &valueTable{limits.NewPlans(limits.Clock{}, nil), s, fmt.Sprintf("%d:%s:", len(name), name)})
	return t.(*valueTable), nil //nolint:forcetypeassert // nothing else is stored
}

func (s *valueStore) Close() error {
	s.closed.Store(true)
	return nil
}

// A valueTable has the keys of one limiter, which begin with its prefix.
type valueTable struct {
	*limits.Plans

	store  *valueStore
	prefix string
}

func (t *valueTable) Apply(ctx context.Context, key string, p *limits.Plan, op limits.Op) (r limits.Result, err error) {
	switch {
	case t.store.closed.Load():
		return r, limits.ErrClosed
	case op.Cost < 0:
		return r, limits.CostError(op.Cost)
	}
	var unreadable error
	err = t.store.values.Update(ctx, t.prefix+key, func(now time.Time, old []byte) (next []byte, keep time.Duration) {
		k := limits.Key{Now: now.UnixNano()}
		at := k.Now
		if unreadable = nil; len(old) > 0 {
			if k.Account, at, unreadable = t.Decode(old); unreadable != nil {
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
