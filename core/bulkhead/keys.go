package bulkhead

import (
	"strings"
	"time"
)

// cell returns the cell of a key, and makes it if there is none. It is nil if there is no
// room for another key.
func (b *Bulkhead) cell(key string) *cell {
	if c, ok := b.byKey.Load(key); ok {
		return c.(*cell)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.byKey.Load(key); ok {
		return c.(*cell)
	}
	if b.closed.Load() {
		return &b.unkeyed
	}
	now := b.now()
	b.visit(2, now, false) // so that idle keys leave as fast as new ones come
	if most := b.config().maxKeys(); len(b.cells) >= most {
		b.visit(64, now, true)
		if len(b.cells) >= most {
			return nil
		}
	}
	c := &cell{}
	c.init(b, strings.Clone(key))
	b.cells = append(b.cells, c)
	b.byKey.Store(c.key, c)
	return c
}

// visit forgets idle keys among the next n. With evict it stops after the first one.
func (b *Bulkhead) visit(n int, now time.Duration, evict bool) {
	for range min(n, len(b.cells)) {
		if b.hand >= len(b.cells) {
			b.hand = 0
		}
		c := b.cells[b.hand]
		if !c.forget(now, evict) {
			b.hand++
			continue
		}
		b.forgotten += c.admitted
		b.byKey.Delete(c.key)
		last := len(b.cells) - 1
		b.cells[b.hand], b.cells[last] = b.cells[last], nil
		if b.cells = b.cells[:last]; evict {
			return
		}
	}
}
