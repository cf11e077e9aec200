package cooldown

import (
	"container/heap"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
)

// A Cooldown holds calls back, by key. It is safe for concurrent use.
type Cooldown struct {
	life       instance.Instance[Config, Config] // the settings have the defaults
	base       time.Time                         // all times are counted from here
	table      Table                             // nil without a Store
	rejections atomic.Uint64

	word atomic.Uint64 // generation<<1, and busy

	mu         sync.Mutex
	gates      map[string]*gate
	ends       ends       // the same
	generation uint64     // of the last hold
	recovered  []recovery // the last maxRecovered
	serial     uint64     // of the last slot
	closed     bool
	stats      Stats
	changes    announce.Queue[change]
}

// busy is set in the word unless every key is free.
const busy = 1

func lifeCycle() *instance.Kind[Config, Config] {
	return &instance.Kind[Config, Config]{
		Kind: "cooldown", Type: "cooldown.Config", DefaultName: "default", Settings: resolved,
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
		},
	}
}

// New makes a cooldown. It returns the errors of [Config.Validate], of the Store, or of
// a Registry that has the name already.
func New(cfg Config) (*Cooldown, error) {
	c := &Cooldown{base: time.Now()}
	if err := c.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	err := c.openTable()
	if err == nil {
		err = c.life.Register(c, c.SetConfig, registry.Source{Figures: c.figures})
	}
	if err != nil {
		c.closeTable()
		return nil, err
	}
	return c, nil
}

// Name returns the name of the cooldown.
func (c *Cooldown) Name() string { return c.life.Name() }

// Config returns the Config of New or of the last SetConfig, as it was given except for a
// Name and Registry that stayed.
func (c *Cooldown) Config() Config { return c.life.Load().Config }

func (c *Cooldown) config() *Config { return &c.life.Load().Settings }

// SetConfig replaces the Config while the cooldown is in use. Keys that are held stay
// held, and calls that wait keep their deadline. An empty Name and a nil Registry stay as
// they are: another one is a [*core.ConfigError], as are another Store and the errors of
// [Config.Validate], and nothing changes.
func (c *Cooldown) SetConfig(cfg Config) error { return c.life.SetConfig(cfg, nil) }

// Close ends all holds and waits, and removes the cooldown from its registry. Calls that
// wait, and every later Acquire, get [core.ErrClosed]. Holds stay in the Store, which is not
// closed. A second Close does nothing; the error is always nil.
func (c *Cooldown) Close() error {
	_ = c.life.Close() // always nil
	c.closeTable()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, g := range c.gates {
		for w := range g.queue.All() {
			c.refuse(g, w, errClosed)
			c.stats.Canceled++
		}
	}
	c.gates, c.ends, c.recovered = nil, nil, nil
	c.publish()
	return nil
}

// Acquire admits a call with a key. If the key is held, Acquire waits, first come, first
// served. The error is a [*HeldError] if the wait would exceed MaxWait or the deadline of
// ctx, or if the queue is full; [core.ErrClosed]; or the cause of ctx if it ends during the
// wait. If no key is held, ctx may be done.
func (c *Cooldown) Acquire(ctx context.Context, key string) (Permit, error) {
	if c.table != nil {
		c.table.Sync(ctx, key)
	}
	word := c.word.Load()
	if word&busy != 0 {
		return c.enter(ctx, key)
	}
	return Permit{cooldown: c, ctx: ctx, key: key, word: word}, nil
}

// Hold holds a key for d from now on, at most MaxHold. If the key is held for longer
// already, or d is not above 0, nothing happens. Calls that were admitted before and are
// not yet made are no longer [Permit.Ready]. Waiters that cannot wait that long are
// rejected. ctx is for the events only.
func (c *Cooldown) Hold(ctx context.Context, key string, d time.Duration) {
	if d > 0 {
		c.locked(func(now time.Duration) { c.hold(ctx, key, c.lookup(key, now), now, d, held) })
	}
}

// locked calls f with the lock held, unless the cooldown is closed, and then announces the changes.
func (c *Cooldown) locked(f func(now time.Duration)) {
	defer c.announce()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		f(c.now())
	}
}

// Release ends the hold of a key, and reports whether it was held. Calls are then
// admitted as after any hold: one, and then more. With a Store, the other cooldowns of the
// name release the key too, except one that knows of a hold that ends later.
func (c *Cooldown) Release(key string) (wasHeld bool) {
	c.locked(func(now time.Duration) {
		var until time.Duration
		if until, wasHeld = c.release(key, now); wasHeld && c.table != nil {
			c.changes.Append(change{key: strings.Clone(key), until: c.base.Add(until), what: released})
		}
	})
	return wasHeld
}

// release ends the hold of a key, and returns when it would have ended.
func (c *Cooldown) release(key string, now time.Duration) (until time.Duration, held bool) {
	g := c.lookup(key, now)
	if g == nil || now >= g.until {
		return 0, false
	}
	until = g.until
	c.until(g, now)
	c.serve(g, now)
	return until, true
}

// Until returns when the hold of a key is over. It is false where the key is not held.
func (c *Cooldown) Until(key string) (time.Time, bool) {
	if c.word.Load()&busy == 0 {
		return time.Time{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if g := c.lookup(key, now); g != nil && now < g.until {
		return c.base.Add(g.until), true
	}
	return time.Time{}, false
}

func (c *Cooldown) now() time.Duration { return time.Since(c.base) }

// publish makes the state visible to Acquire and Ready.
func (c *Cooldown) publish() {
	word := c.generation << 1
	if c.closed || len(c.gates) > 0 {
		word |= busy
	}
	c.word.Store(word)
}

// permit is one for a key that is not held.
func (c *Cooldown) permit(ctx context.Context, key string) Permit {
	return Permit{cooldown: c, ctx: ctx, key: key, word: c.word.Load()}
}

// take makes a permit with a slot.
func (c *Cooldown) take(ctx context.Context, g *gate, now time.Duration) Permit {
	c.serial++
	g.slots = append(g.slots, slot{c.serial, now})
	p := c.permit(ctx, g.key)
	p.generation, p.slot = g.generation, c.serial
	return p
}

// lookup returns the gate of a key, if there is one.
func (c *Cooldown) lookup(key string, now time.Duration) *gate {
	c.sweep(now)
	g := c.gates[key]
	if g != nil && c.stale(g, now) {
		c.recover(g)
		return nil
	}
	return g
}

// sweep forgets the stale gates at the top of the heap. Those below one that is not stale
// are forgotten later.
func (c *Cooldown) sweep(now time.Duration) {
	for len(c.ends) > 0 && c.stale(c.ends[0], now) {
		c.recover(c.ends[0])
	}
}

// forgetStale looks at some keys, and forgets one that is stale.
func (c *Cooldown) forgetStale(now time.Duration) {
	looks := 0
	for _, g := range c.gates {
		if c.stale(g, now) {
			c.recover(g)
			return
		}
		if looks++; looks == 64 {
			return
		}
	}
}

// hold begins or extends a hold, as the event held or heard.
func (c *Cooldown) hold(ctx context.Context, key string, g *gate, now, d time.Duration, what what) {
	d = min(d, c.config().MaxHold)
	until := now + d
	switch {
	case d <= 0, g != nil && until <= g.until:
		return
	case g == nil:
		if len(c.gates) >= c.config().MaxKeys {
			c.forgetStale(now)
		}
		if len(c.gates) >= c.config().MaxKeys {
			c.stats.Evicted++
			if c.ends[0].until >= until {
				return
			}
			c.forget(c.ends[0])
		}
		key = strings.Clone(key)
		g = &gate{key: key, until: until}
		if c.gates == nil {
			c.gates = map[string]*gate{}
		}
		c.gates[key] = g
		heap.Push(&c.ends, g)
	}
	if now >= g.until || g.generation == 0 { // an extension is part of the hold
		c.generation++
		g.generation, g.room, g.slots = c.generation, 1, g.slots[:0]
		c.stats.Holds++
	}
	g.lasted = d
	c.until(g, until)
	for w := range g.queue.All() {
		if w.Value.deadline < until {
			c.refuse(g, w, g.refusal)
		}
	}
	g.wakeFirst() // it may have slept until something else
	c.changes.Append(change{ctx: ctx, key: g.key, until: g.refusal.until, what: what})
	c.publish()
}

// until sets when a hold is over.
func (c *Cooldown) until(g *gate, until time.Duration) {
	g.until, g.idle = until, until
	g.refusal = &HeldError{Name: c.Name(), Key: g.key, until: c.base.Add(until)}
	heap.Fix(&c.ends, g.index)
}

// forget frees a key, and admits all its waiters.
func (c *Cooldown) forget(g *gate) {
	heap.Remove(&c.ends, g.index)
	delete(c.gates, g.key)
	if len(c.gates) == 0 {
		c.gates, c.ends = nil, nil // their memory is freed
	}
	c.publish()
	for w := range g.queue.All() {
		c.admit(g, w, c.permit(w.Value.ctx, g.key))
	}
}
