// Package otherstore is a store outside of the module: a map and a lock.
package otherstore

import (
	"context"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/core/ratelimit/driver/keyvalue"
)

// A Store keeps all keys.
type Store struct {
	mu     sync.Mutex
	tables map[string]driver.Table
	closed bool
}

// Open returns the table of that name.
func (s *Store) Open(name string) (driver.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables == nil {
		s.tables = map[string]driver.Table{}
	}
	if s.tables[name] == nil {
		s.tables[name] = keyvalue.Table(&values{store: s, byKey: map[string][]byte{}})
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

type values struct {
	store *Store
	byKey map[string][]byte
}

// Update replaces the value of a key.
func (v *values) Update(_ context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if v.store.closed {
		return core.ErrClosed
	}
	switch next, _ := f(time.Now(), v.byKey[key]); {
	case next == nil:
	case len(next) == 0:
		delete(v.byKey, key)
	default:
		v.byKey[key] = next
	}
	return nil
}
