package cooldown_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/cooldowntest"
)

// A memory is a store within the process.
type memory struct {
	mu     sync.Mutex
	tables map[string][]*shared
	until  map[[2]string]time.Time
	syncs  int
}

type shared struct {
	*memory

	name     string
	listener cooldown.Listener
	synced   bool
}

func newMemory() *memory {
	return &memory{tables: map[string][]*shared{}, until: map[[2]string]time.Time{}}
}

func (m *memory) OpenCooldown(name string, l cooldown.Listener) (cooldown.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &shared{memory: m, name: name, listener: l}
	m.tables[name] = append(m.tables[name], t)
	return t, nil
}

// Sync tells a table that is used for the first time what is held.
func (t *shared) Sync(context.Context, string) {
	t.mu.Lock()
	t.syncs++
	known := map[string]time.Time{}
	for k, until := range t.until {
		if k[0] == t.name && !t.synced {
			known[k[1]] = until
		}
	}
	t.synced = true
	t.mu.Unlock()
	for key, until := range known {
		t.listener.Held(key, time.Until(until))
	}
}

func (t *shared) Hold(key string, left time.Duration) {
	t.change(func() func(*shared) {
		until := time.Now().Add(left)
		if left <= 0 || !t.until[[2]string{t.name, key}].Before(until) {
			return nil
		}
		t.until[[2]string{t.name, key}] = until
		return func(o *shared) { o.listener.Held(key, left) }
	})
}

func (t *shared) Release(key string, left time.Duration) {
	t.change(func() func(*shared) {
		if t.until[[2]string{t.name, key}].After(time.Now().Add(left + time.Second)) {
			return nil
		}
		delete(t.until, [2]string{t.name, key})
		return func(o *shared) { o.listener.Released(key) }
	})
}

// change makes a change unless the table is closed, and tells the others.
func (t *shared) change(f func() func(*shared)) {
	t.mu.Lock()
	var others []*shared
	open := false
	for _, o := range t.tables[t.name] {
		if open = open || o == t; o != t && o.synced {
			others = append(others, o)
		}
	}
	var tell func(*shared)
	if open {
		tell = f()
	}
	t.mu.Unlock()
	for _, o := range others {
		if tell != nil {
			tell(o)
		}
	}
}

func (t *shared) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rest []*shared
	for _, o := range t.tables[t.name] {
		if o != t {
			rest = append(rest, o)
		}
	}
	t.tables[t.name] = rest
}

func TestConformanceOfAStoreInMemory(t *testing.T) {
	t.Parallel()
	cooldowntest.Run(t, func(*testing.T) (a, b cooldown.Store) {
		m := newMemory()
		return m, m
	})
}
