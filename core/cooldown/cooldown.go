package cooldown

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/hook"
)

const kind = "cooldown"

// A Cooldown holds calls back, by key. Its methods may be used by several goroutines
// at once.
type Cooldown struct {
	cfg        atomic.Pointer[Config]
	configure  sync.Mutex // of SetConfig
	base       time.Time  // all times are counted from here
	hooks      hook.Set[Hooks]
	panics     hook.Panics
	rejections atomic.Uint64

	word atomic.Uint64 // generation<<1, and busy

	mu         sync.Mutex
	gates      map[string]*gate
	ends       ends       // the same
	generation uint64     // of the last hold or recovery
	recovered  []recovery // the last maxRecovered
	oldest     int        // of recovered, when it is full
	serial     uint64     // of the last slot
	closed     bool
	stats      Stats
	changes    announce.Queue[change]
}

// busy is set in the word when there is more to look at.
const busy = 1

// New makes a cooldown. It returns what [Config.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func New(cfg Config) (*Cooldown, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cooldown{base: time.Now()}
	c.cfg.Store(&cfg)
	c.hooks.Own(cfg.Hooks)
	if cfg.Registry != nil {
		if err := cfg.Registry.Add(kind, c.Name(), c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Name returns the name of the cooldown.
func (c *Cooldown) Name() string { return c.cfg.Load().name() }

// Config returns the Config that the cooldown has, as it was given; Name and Registry are
// those of New.
func (c *Cooldown) Config() Config { return *c.cfg.Load() }

// SetConfig replaces the Config while the cooldown is in use. Keys that are held stay so,
// and who waits does so for as long as it was to be. An empty Name and a nil Registry are
// what they were; where cfg has another one, or does not validate, the error says so and
// nothing changes.
func (c *Cooldown) SetConfig(cfg Config) error {
	c.configure.Lock()
	defer c.configure.Unlock()
	old := c.Config()
	cfg.Name, cfg.Registry = cmp.Or(cfg.Name, old.Name), cmp.Or(cfg.Registry, old.Registry)
	err := cfg.Validate()
	if cfg.name() != old.name() {
		err = errors.Join(err, &core.ConfigError{Field: "cooldown.Config.Name", Value: cfg.Name, Reason: "must stay " + old.name()})
	}
	if cfg.Registry != old.Registry {
		err = errors.Join(err, &core.ConfigError{Field: "cooldown.Config.Registry", Value: "another one", Reason: "must stay the same"})
	}
	if err != nil {
		return err
	}
	c.cfg.Store(&cfg)
	c.hooks.Own(cfg.Hooks)
	return nil
}

// Observe adds hooks to those of the Config, until cancel is called; events that
// happen at that moment may still be told.
func (c *Cooldown) Observe(h Hooks) (cancel func()) { return c.hooks.Add(h) }

// Close ends all holds and waits, and takes the cooldown out of its registry. Those who
// wait get [ErrClosed], and so does every later Acquire. A second Close does nothing;
// the error is always nil.
func (c *Cooldown) Close() error {
	if r := c.Config().Registry; r != nil {
		r.Remove(kind, c.Name(), c)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, g := range c.gates {
		for g.queue.Len() > 0 {
			c.refuse(g, g.first(), ErrClosed)
		}
	}
	c.gates, c.ends, c.recovered = nil, nil, nil
	c.publish()
	return nil
}

// Acquire admits a call with a key, at once if the key is not held. Else it waits for
// its turn, behind those who came before. The error is a [*HeldError] when that takes
// longer than MaxWait or the deadline of ctx allow, or when the queue is full;
// [ErrClosed]; or the cause of ctx when it ends during the wait. If no key is held,
// that ctx is done does not matter.
func (c *Cooldown) Acquire(ctx context.Context, key string) (Permit, error) {
	word := c.word.Load()
	if word&busy != 0 {
		return c.enter(ctx, key)
	}
	return Permit{cooldown: c, ctx: ctx, key: key, word: word}, nil
}

// Hold holds a key for d from now on, at most MaxHold. If it is held for longer already,
// or d is not above 0, nothing happens. Calls that were admitted before and are not yet
// made are not [Permit.Ready] any more. Who waits and cannot wait that long is rejected.
// ctx is for the hooks only.
func (c *Cooldown) Hold(ctx context.Context, key string, d time.Duration) {
	if d <= 0 {
		return
	}
	defer c.announce()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); !c.closed {
		c.hold(ctx, key, c.lookup(key, now), now, d)
	}
}

// Release ends the hold of a key by hand, and tells whether it was held. Calls go out as
// they do after any hold: one, and then more.
func (c *Cooldown) Release(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	g := c.lookup(key, now)
	if g == nil || now >= g.until {
		return false
	}
	c.until(g, now)
	c.serve(g, now)
	return true
}

// Until returns when the hold of a key is over. It is false where the key is not held.
func (c *Cooldown) Until(key string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if g := c.lookup(key, now); g != nil && now < g.until {
		return c.base.Add(g.until), true
	}
	return time.Time{}, false
}

func (c *Cooldown) now() time.Duration { return time.Since(c.base) }

// publish lets Acquire and Ready know.
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
		c.recover(g, g.generation)
		return nil
	}
	return g
}

// sweep forgets what is stale at the top of the heap. What is below something that is
// not yet has its turn later.
func (c *Cooldown) sweep(now time.Duration) {
	for len(c.ends) > 0 && c.stale(c.ends[0], now) {
		c.recover(c.ends[0], c.ends[0].generation)
	}
}

// forgetStale looks at some keys, and forgets one that is stale.
func (c *Cooldown) forgetStale(now time.Duration) {
	looks := 0
	for _, g := range c.gates {
		if c.stale(g, now) {
			c.recover(g, g.generation)
			return
		}
		if looks++; looks == 64 {
			return
		}
	}
}

// hold begins or extends a hold.
func (c *Cooldown) hold(ctx context.Context, key string, g *gate, now, d time.Duration) {
	d = min(d, c.cfg.Load().maxHold())
	until := now + d
	switch {
	case g != nil && until <= g.until:
		return
	case g == nil:
		if len(c.gates) >= c.cfg.Load().maxKeys() {
			c.forgetStale(now)
		}
		if len(c.gates) >= c.cfg.Load().maxKeys() {
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
	for e := g.queue.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		if w.deadline < until {
			c.refuse(g, w, g.refusal)
		}
		e = next
	}
	g.wakeFirst() // it may have slept until something else
	c.changes.Append(change{ctx, g.key, g.refusal.until, true})
	c.publish()
}

// until sets when a hold is over.
func (c *Cooldown) until(g *gate, until time.Duration) {
	g.until, g.idle = until, until
	g.refusal = &HeldError{Name: c.Name(), Key: g.key, until: c.base.Add(until)}
	heap.Fix(&c.ends, g.index)
}

// forget frees a key, and lets all go who wait for it.
func (c *Cooldown) forget(g *gate) {
	heap.Remove(&c.ends, g.index)
	delete(c.gates, g.key)
	if len(c.gates) == 0 {
		c.gates, c.ends = nil, nil // what they have grown to is given back
	}
	c.publish()
	for g.queue.Len() > 0 {
		w := g.first()
		c.admit(g, w, c.permit(w.ctx, g.key))
	}
}
