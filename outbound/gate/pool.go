package gate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/validate"
)

// PoolConfig configures a [Pool] of connections with keys of type K.
type PoolConfig[K comparable, C any] struct {
	// Capacity is the number of connections that can be open over all keys. If zero, it is 8.
	Capacity int
	// Dial opens a connection, in the goroutine of a call. It must not send anything that the vendor counts as a call, and
	// must return when ctx ends. It is required.
	Dial func(ctx context.Context, key K) (C, error)
	// Close closes a connection. It is called once for each connection. If nil, nothing is done.
	Close func(key K, conn C)
	// Healthy reports whether an idle connection can be used again; otherwise it is closed. If nil, every connection can.
	Healthy func(key K, conn C) bool
	// IdleTime is the time after which an idle connection is closed. If zero, it is 5 minutes. If negative, there is no
	// limit.
	IdleTime time.Duration
	// Call returns the keys and costs of a call with a connection of this key. A Call in the context overrides it. If nil,
	// there are none.
	Call func(key K) Call
}

// A Pool keeps the connections to a vendor by key. A call takes an idle connection of its key. If there is none, it
// dials. If the pool is full, it first closes the connection of another key that was idle for the longest time; if none
// is idle, it waits. A call that is repeated takes its connection again, unless another call has taken it meanwhile.
// [Gate.Close] closes the pool.
type Pool[K comparable, C any] struct {
	g   *Gate
	cfg PoolConfig[K, C]

	// guarded by the lock of the gate
	parked queue
	used   int           // connections, and places reserved for one
	idle   []*conn[K, C] // the most recently used first
	closed bool
}

// A conn is a connection, or a place reserved for one.
type conn[K comparable, C any] struct {
	key     K
	c       C
	dialed  bool
	busy    bool        // a function uses it, or has panicked
	rested  bool        // it was idle since its last use
	expiry  *time.Timer // of an idle connection
	evicted *conn[K, C] // to be closed before the dial
}

// A pooling is a Pool of any type parameters.
type pooling interface {
	take(c *call) bool // false if there is no connection for the call
	put(c *call)       // the opposite
	waiting() *queue
	size() int // connections
	close()
}

// NewPool makes a pool for calls through g. A field that cannot be used is a *core.ConfigError.
func NewPool[K comparable, C any](g *Gate, cfg PoolConfig[K, C]) (*Pool[K, C], error) {
	check := validate.Of("gate.PoolConfig")
	check.That(cfg.Capacity >= 0, "Capacity", cfg.Capacity, "must be >= 0 (0 means 8)")
	check.That(cfg.Dial != nil, "Dial", "nil", "is required")
	if err := check.Err(); err != nil {
		return nil, err
	}
	cfg.Capacity, cfg.IdleTime = cmp.Or(cfg.Capacity, 8), cmp.Or(cfg.IdleTime, 5*time.Minute)
	p := &Pool[K, C]{g: g, cfg: cfg}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools = append(g.pools, p)
	return p, nil
}

func (p *Pool[K, C]) waiting() *queue { return &p.parked }

func (p *Pool[K, C]) take(c *call) bool {
	n := &conn[K, C]{key: c.key.(K)}
	i := slices.IndexFunc(p.idle, func(o *conn[K, C]) bool { return o.key == n.key })
	switch last := len(p.idle) - 1; {
	case i >= 0:
		n = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	case p.used < p.cfg.Capacity:
		p.used++
	case last >= 0:
		n.evicted, p.idle = p.idle[last], p.idle[:last]
	default:
		return false
	}
	if c.conn = n; n.expiry != nil {
		n.expiry.Stop()
	}
	return true
}

func (p *Pool[K, C]) put(c *call) {
	n, ok := c.conn.(*conn[K, C])
	if !ok || n.busy {
		return // leave closes it
	}
	c.conn = nil
	if n.evicted != nil { // it was not closed
		n = n.evicted
	}
	if n.dialed {
		n.rested = true
		p.idle = slices.Insert(p.idle, 0, n)
		if n.expiry == nil && p.cfg.IdleTime > 0 {
			n.expiry = time.AfterFunc(p.cfg.IdleTime, func() { p.expire(n) })
		} else if p.cfg.IdleTime > 0 {
			n.expiry.Reset(p.cfg.IdleTime)
		}
	} else {
		p.used--
	}
	p.g.ripe(&p.parked)
}

// enter begins a call.
func (p *Pool[K, C]) enter(ctx context.Context, key K) (c *call, own bool, err error) {
	if outer := p.g.carried(ctx).permit; outer != nil && outer.pool == pooling(p) {
		return nil, false, errReentrant
	}
	calls := p.g.carried(ctx).calls
	if p.cfg.Call != nil {
		calls = append(slices.Clip(calls), p.cfg.Call(key))
	}
	if c, own, err = p.g.enter(ctx, nil, calls); err != nil {
		return c, own, err
	}
	if !own {
		c.back() // it passes again, for a connection
	}
	c.pool, c.key = p, key
	return c, own, nil
}

// leave ends a call, also after a panic.
func (p *Pool[K, C]) leave(c *call, own bool) {
	n, _ := c.conn.(*conn[K, C])
	if n != nil && n.busy {
		p.close1(n)
		n.dialed, n.busy = false, false
	}
	unlock := p.g.lock()
	closed := p.closed
	if p.put(c); !own {
		c.pool, c.key, c.pinned = nil, nil, false
	}
	unlock()
	if own {
		c.end()
	}
	if closed {
		p.expire(nil)
	}
}

// open dials the connection of an admitted call, unless it has one. If the dial fails, the call keeps its place.
func (p *Pool[K, C]) open(c *call) (err error) {
	n := c.conn.(*conn[K, C])
	if old := n.evicted; old != nil {
		n.evicted = nil
		p.close1(old)
	}
	if n.dialed && n.rested && p.cfg.Healthy != nil && !p.cfg.Healthy(n.key, n.c) {
		n.dialed = false
		p.close1(n)
	}
	n.rested = false
	if !n.dialed {
		if n.c, err = p.cfg.Dial(c.ctx, n.key); err != nil {
			return err
		}
		n.dialed = true
	}
	return nil
}

// use calls fn with the connection of a call, which is closed unless fn returns.
func use[R any, K comparable, C any](ctx context.Context, _ *Pool[K, C], c *call, fn func(context.Context, C) (R, error)) (R, error) {
	n := c.conn.(*conn[K, C])
	n.busy = true
	r, err := fn(ctx, n.c)
	n.busy = false
	return r, err
}

func (p *Pool[K, C]) close1(n *conn[K, C]) {
	if p.cfg.Close != nil {
		p.cfg.Close(n.key, n.c)
	}
}

// expire closes an idle connection, or if one is nil, all idle connections, now and later.
func (p *Pool[K, C]) expire(one *conn[K, C]) {
	p.g.mu.Lock()
	var old []*conn[K, C]
	p.idle = slices.DeleteFunc(p.idle, func(n *conn[K, C]) bool {
		gone := one == nil || n == one
		if gone {
			old = append(old, n)
		}
		return gone
	})
	p.used -= len(old)
	p.closed = p.closed || one == nil
	p.g.mu.Unlock()
	for _, n := range old {
		p.close1(n)
	}
}

func (p *Pool[K, C]) close() { p.expire(nil) }

func (p *Pool[K, C]) size() int { return p.used }
