package bulkhead

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/waitq"
)

// A cell is the part of one key. Calls whose permits are free use the word alone.
type cell struct {
	word       word
	generation atomic.Uint32             // changes when the limit is lowered; 0 while it is fixed
	full       atomic.Pointer[FullError] // of calls of weight 1; nil if calls wait
	bulkhead   *Bulkhead
	key        string

	mu          sync.Mutex
	limit       int
	generations uint32 // the last one
	gone        bool   // closed or forgotten: the word stays locked
	successes   int    // permits of successful calls, to raise the limit
	admitted    uint64 // calls, up to the last harvest
	queue       waitq.Queue[waiting]
	served      time.Duration // when a waiter was last admitted, or the first one came
	pace        time.Duration // mean time between two admissions of waiters

	asking               int // calls that the Store has not decided: the word has counted them
	parked, parkedWeight int // those of them, and their permits, that wait for the Store

	seen  uint64        // the word at the last visit, if the key was idle
	since time.Duration // of seen
}

// init is called before the cell is visible to others.
func (c *cell) init(b *Bulkhead, key string) {
	cfg := b.config()
	c.bulkhead, c.key, c.limit = b, key, cfg.limit()
	c.word.Store(none + uint64(c.limit))
	if b.table != nil {
		c.word.Or(locked) // always: the word alone does not decide
	}
	c.configure(cfg)
}

// configure applies a Config, except for its limit.
func (c *cell) configure(cfg *Config) {
	c.queue.NewestFirst = cfg.NewestFirst
	switch {
	case cfg.Backoff == 0:
		c.generation.Store(0)
	case c.generation.Load() == 0:
		c.newGeneration()
	}
	if cfg.MaxQueue >= 0 {
		c.full.Store(nil)
	} else if c.full.Load() == nil {
		c.full.Store(c.refusal())
	}
}

func (c *cell) newGeneration() {
	c.generations++
	c.generation.Store(c.generations)
}

// setLimit changes the limit. The caller serves the waiters.
func (c *cell) setLimit(limit int) {
	c.word.add(limit - c.limit)
	c.limit = limit
}

// adopt applies a Config to a cell whose highest limit was top.
func (c *cell) adopt(cfg *Config, top int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := cfg.limit()
	if cfg.Backoff > 0 && c.limit < top { // it was lowered
		limit = min(max(c.limit, cfg.minLimit()), limit)
	}
	c.configure(cfg)
	c.setLimit(limit)
	for w := range c.queue.All() {
		if int(w.Weight) > cfg.limit() {
			c.refuse(w, c.never(int(w.Weight)))
		}
	}
	c.serve()
}

// admit takes the permits of a call, with the lock held. A call that is heavier than a
// lowered limit is admitted alone. If the permits are not free and wait is set, the word is
// locked from then on.
func (c *cell) admit(n int, wait bool) bool {
	for {
		state := c.word.Load()
		if state&harvest != 0 {
			if c.word.CompareAndSwap(state, state&(locked|permits)) {
				c.admitted += admissions(state)
			}
			continue
		}
		if free(state) < min(n, c.limit) {
			if !wait || state&locked != 0 || c.word.CompareAndSwap(state, state|locked) {
				return false
			}
			continue
		}
		if c.word.CompareAndSwap(state, state+admission-uint64(n)) {
			if c.bulkhead.table != nil {
				c.asking++
			}
			return true
		}
	}
}

// serve admits the waiters whose permits are free. The first one blocks the others, so a
// heavy call gets its permits.
func (c *cell) serve() {
	for w := c.queue.First(); w != nil; w = c.queue.First() {
		if !c.admit(int(w.Weight), true) {
			return
		}
		now := c.bulkhead.now()
		if gap := now - c.served; c.pace == 0 {
			c.pace = gap
		} else {
			c.pace += (gap - c.pace) / 8
		}
		c.served = now
		w.Value.permit = Permit{cell: c, ctx: w.Value.ctx, generation: c.generation.Load(), weight: int32(w.Weight)}
		w.Leave()
	}
	if !c.gone && c.bulkhead.table == nil {
		c.word.And(^uint64(locked))
	}
}

func (c *cell) refuse(w *waiter, err error) {
	w.Value.err = err
	w.Leave()
}

// refusal returns the error of a call that gets no permits.
func (c *cell) refusal() *FullError {
	if full := c.full.Load(); full != nil {
		return full
	}
	e := &FullError{Name: c.bulkhead.Name(), Key: c.key, after: -1}
	if c.pace > 0 {
		e.after = c.pace * time.Duration(max(1, c.queue.Len()))
	}
	return e
}

// never returns the error of a call that is heavier than any limit.
func (c *cell) never(weight int) *FullError {
	return &FullError{Name: c.bulkhead.Name(), Key: c.key, after: -1, weight: weight, limit: c.bulkhead.config().limit()}
}

// close ends all waits.
func (c *cell) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.word.Or(locked)
	for w := range c.queue.All() {
		c.refuse(w, errClosed)
	}
}

// keep is how long an idle key is kept.
const keep = time.Minute

// forget makes the cell useless if its key is idle, and either evict is set or the key
// was idle for some time. It reports whether it did.
func (c *cell) forget(now time.Duration, evict bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.word.Load()
	switch {
	case state&locked != 0 && c.bulkhead.table == nil || c.queue.Len() > 0 || free(state) != c.limit:
		c.seen = 0
		return false
	case !evict && state != c.seen:
		c.seen, c.since = state, now
		return false
	case !evict && now-c.since < keep, !c.word.CompareAndSwap(state, state|locked):
		return false
	}
	c.gone = true
	c.admitted += admissions(state)
	return true
}

// stats returns the state of the key, and the number of calls admitted.
func (c *cell) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.word.Load()
	return Stats{
		Admitted: c.admitted + admissions(state) - uint64(c.asking), InFlight: c.limit - free(state) - c.parkedWeight,
		Limit: c.limit, Waiting: c.queue.Len() + c.parked,
	}
}
