package bulkhead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/waitq"
)

// A cell is the state of one key. Calls whose permits are free only change its word.
type cell struct {
	word       word
	generation atomic.Uint32 // counts the decreases of the limit
	bulkhead   *Bulkhead
	full       FullError // the error of calls that do not wait

	mu        sync.Mutex // use lock and unlock
	cfg       *Config    // of the last lock
	gone      error      // not nil: errForgotten or core.ErrClosed; the lock of the bulkhead guards it too
	limit     int
	successes int    // permits of successful calls, to raise the limit
	admitted  uint64 // admitted calls; lock adds those counted in the word
	queue     waitq.Queue[waiting]
	pace      time.Duration // how long the last admitted waiter waited
}

// A waiter waits for permits. The lock of its cell guards it.
type waiter = waitq.Waiter[waiting]

type waiting struct {
	generation uint32 // set if it was admitted
	err        error  // set if it was rejected
}

var errForgotten = errors.New("bulkhead: the key was forgotten")

// init is called before the cell is visible to others.
func (c *cell) init(b *Bulkhead, key string) {
	c.bulkhead, c.cfg = b, b.config()
	c.limit = c.cfg.limit()
	c.full = FullError{Name: b.Name(), Key: key, reason: "full", after: -1}
	c.word.Store(none + uint64(c.limit))
}

// lock locks the cell, makes every call of the key take the lock, and adopts the Config in use. Permits can still be returned without the
// lock.
func (c *cell) lock() {
	c.mu.Lock()
	c.word.Or(locked)
	c.admitted += admissions(c.word.And(locked | permits))
	if old, cfg := c.cfg, c.bulkhead.config(); cfg != old {
		limit := cfg.limit()
		if cfg.Backoff > 0 && c.limit < old.limit() { // Backoff has lowered it, and it stays
			limit = cfg.adapted(c.limit)
		}
		c.cfg = cfg
		c.setLimit(limit)
	}
}

// unlock serves the waiters, and unlocks the cell. While calls wait, the word stays locked, so that each Done serves them.
func (c *cell) unlock() {
	if c.serve(); c.gone == nil && c.queue.Len() == 0 {
		c.word.And(permits)
	}
	c.mu.Unlock()
}

// serve admits the waiters whose permits are free. The first waiter blocks the others, so that a heavy call gets its permits. A call that
// is heavier than a lowered limit is admitted alone.
func (c *cell) serve() {
	first := c.queue.First
	if c.cfg.NewestFirst {
		first = c.queue.Last
	}
	for w := first(); w != nil && free(c.word.Load()) >= min(int(w.Weight), c.limit); w = first() {
		c.word.add(-int(w.Weight))
		c.admitted++
		w.Value.generation = c.generation.Load()
		w.Leave()
	}
}

// adapt changes the limit by the outcome of a call that still holds its permits: additive increase, multiplicative
// decrease.
func (c *cell) adapt(p Permit, outcome core.Outcome) {
	b, cfg, old, used := c.bulkhead, c.cfg, c.limit, c.limit-free(c.word.Load())
	lower := cfg.adapted(int(float64(old) * cfg.Backoff))
	switch {
	case cfg.Backoff == 0, p.generation != c.generation.Load():
	case outcome == core.Failure:
		c.successes = 0
		if lower < old {
			c.generation.Add(1)
			c.setLimit(lower)
			b.lowered.Add(1)
			b.changes.Append(func() {
				e := registry.Event{Text: "limit of calls in flight lowered", Key: c.full.Key}
				e.Attrs = []slog.Attr{slog.Int("old", old), slog.Int("limit", lower)}
				b.life.Emit(p.ctx, e)
			})
		}
	case outcome == core.Success && old < cfg.limit() && used >= old-used: // at least half of the permits are used
		if c.successes += int(p.weight); c.successes >= old {
			c.successes = 0
			c.setLimit(old + 1)
			b.raised.Add(1)
		}
	}
}

// setLimit changes the limit.
func (c *cell) setLimit(limit int) {
	c.word.add(limit - c.limit)
	c.limit = limit
}

// leave ends the use of the cell, and all waits. If err is errForgotten and the cell is not idle, it does nothing and returns false. The
// caller holds the lock of the bulkhead.
func (c *cell) leave(err error) bool {
	c.lock()
	defer c.unlock()
	if err == errForgotten { //nolint:errorlint // it is never wrapped
		if c.queue.Len() > 0 || free(c.word.Load()) != c.limit {
			return false
		}
		c.bulkhead.forgotten += c.admitted
	}
	c.gone = err
	for w := range c.queue.All() {
		c.refuse(w, err)
	}
	return true
}

// enter continues Acquire if the word does not admit the call.
func (c *cell) enter(ctx context.Context, n int) (Permit, error) {
	if n < 1 {
		return Permit{}, &core.ConfigError{Field: "bulkhead.Acquire n", Value: n, Reason: "must be >= 1"}
	}
	b, cfg, begin, waited := c.bulkhead, c.bulkhead.configOf(ctx), time.Now(), time.Duration(0)
	w, waits, err := c.join(ctx, cfg, n)
	if waits {
		waited, err = c.await(ctx, w, begin, waitq.Longest(cfg.MaxWait))
	}
	switch {
	case err == errForgotten: //nolint:errorlint // it is never wrapped
		b.open(c.full.Key) // the cell is replaced
		return b.Acquire(ctx, c.full.Key, n)
	case err != nil:
		return Permit{}, b.rejected(ctx, c.full.Key, n, waited, err)
	}
	return Permit{cell: c, ctx: ctx, generation: w.Value.generation, weight: int32(n)}, nil
}

// join puts a call into the queue, and serves the queue. waits reports whether the call still waits then.
func (c *cell) join(ctx context.Context, cfg *Config, n int) (w *waiter, waits bool, err error) {
	c.lock()
	defer c.unlock()
	switch limit := c.cfg.limit(); {
	case c.gone != nil:
		return nil, false, c.gone
	case n > limit:
		e := c.full
		e.reason, e.never = fmt.Sprintf("%d permits are above the limit of %d", n, limit), true
		return nil, false, &e
	}
	w = c.queue.Push(waiting{}, int64(n))
	c.serve()
	switch full := c.queue.Len() > cfg.maxQueue(); {
	case !w.Waiting():
	case full && (cfg.MaxQueue < 0 || !c.cfg.NewestFirst):
		c.refuse(w, c.refusal())
	case ctx.Err() != nil:
		c.refuse(w, context.Cause(ctx))
	case full:
		c.refuse(c.queue.First(), c.refusal())
	}
	return w, w.Waiting(), w.Value.err
}

// await waits until w is admitted or rejected, or ctx ends. It returns how long that took.
func (c *cell) await(ctx context.Context, w *waiter, begin time.Time, most time.Duration) (waited time.Duration, err error) {
	err = w.Await(ctx, nil, func() (left time.Duration, over bool) {
		c.lock()
		defer c.unlock()
		if left = most - time.Since(begin); left <= 0 {
			c.refuse(w, c.refusal())
		}
		return left, !w.Waiting()
	})
	c.lock()
	defer c.unlock()
	c.refuse(w, err) // ctx has ended
	if waited = time.Since(begin); w.Value.err == nil {
		c.pace = waited
		c.bulkhead.waits.Observe(waited)
	}
	return waited, w.Value.err
}

// refuse ends a wait with err, unless it is over. The waiter may have blocked others, which unlock serves.
func (c *cell) refuse(w *waiter, err error) {
	if w.Waiting() {
		w.Value.err = err
		w.Leave()
	}
}

// refusal returns the error of a call that gets no permits.
func (c *cell) refusal() *FullError {
	e := c.full
	e.after = cmp.Or(c.pace, e.after)
	return &e
}
