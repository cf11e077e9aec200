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
	pool
	cfg PoolConfig[K, C]
}

// A pool is a Pool of any type parameters. The lock of the gate guards it.
type pool struct {
	g        *Gate
	capacity int
	idleTime time.Duration
	close    func(n *conn) // without the lock

	parked queue
	used   int     // connections, and places reserved for one
	idle   []*conn // the most recently used first
	closed bool
}

// pooled is what a call has of a pool.
type pooled struct {
	pool   *pool // nil if it needs no connection
	key    any   // of the connection
	conn   *conn
	pinned bool // it keeps its connection
}

// A use is a call while it uses a pool.
type use struct {
	call  *call
	ctx   context.Context //nolint:containedctx // a call is made in one function
	own   bool            // otherwise it is the call of the permit that ctx carries
	outer pooled          // what that call has of another pool, whose connection it keeps meanwhile
}

// A conn is a connection, or a place reserved for one.
type conn struct {
	key, c  any
	dialed  bool
	busy    bool        // a function uses it, or has panicked
	rested  bool        // it was idle since its last use
	expiry  *time.Timer // of an idle connection
	evicted *conn       // to be closed before the dial
}

// as returns a connection or its key, which can be a nil of an interface type.
func as[T any](v any) T {
	t, _ := v.(T)
	return t
}

// NewPool makes a pool for calls through g. A field that cannot be used is a *core.ConfigError.
func NewPool[K comparable, C any](g *Gate, cfg PoolConfig[K, C]) (*Pool[K, C], error) {
	check := validate.Of("gate.PoolConfig")
	check.That(cfg.Capacity >= 0, "Capacity", cfg.Capacity, "must be >= 0 (0 means 8)")
	check.That(cfg.Dial != nil, "Dial", "nil", "is required")
	if err := check.Err(); err != nil {
		return nil, err
	}
	p := &Pool[K, C]{pool{g: g, capacity: cmp.Or(cfg.Capacity, 8), idleTime: cmp.Or(cfg.IdleTime, 5*time.Minute)}, cfg}
	p.close = func(n *conn) {
		if cfg.Close != nil {
			cfg.Close(as[K](n.key), as[C](n.c))
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools = append(g.pools, &p.pool)
	return p, nil
}

// take gives the call a connection, and reports whether there is one.
func (p *pool) take(c *call) bool {
	n := &conn{key: c.key}
	i := slices.IndexFunc(p.idle, func(o *conn) bool { return o.key == n.key })
	switch last := len(p.idle) - 1; {
	case i >= 0:
		n = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	case p.used < p.capacity:
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

// putConn gives the connection of the call back to the pool, if it has one.
func (c *call) putConn() {
	p, n := c.pool, c.conn
	if n == nil || n.busy || c.pinned {
		return // leave closes a busy one
	}
	c.conn = nil
	if n.evicted != nil { // it was not closed
		n = n.evicted
	}
	if !n.dialed {
		p.used--
	} else {
		n.rested = true
		p.idle = slices.Insert(p.idle, 0, n)
		if p.idleTime > 0 {
			n.expiry = time.AfterFunc(p.idleTime, func() { p.expire(n) })
		}
	}
	p.g.ripe(&p.parked)
}

// enter begins a call.
//
//nolint:contextcheck // that of the call is made of ctx
func (p *Pool[K, C]) enter(ctx context.Context, key K) (u use, err error) {
	in := p.g.carried(ctx)
	if slices.Contains(in.pools, &p.pool) {
		return u, errReentrant
	}
	if p.cfg.Call != nil {
		in.keys = append([]Call{p.cfg.Call(key)}, in.keys...)
		ctx = context.WithValue(ctx, carryKey{p.g}, in)
	}
	c, own, err := p.g.enter(ctx, nil)
	if err != nil {
		return u, err
	}
	if own {
		ctx = c.ctx
	} else {
		c.back() // it passes again, for a connection
	}
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	u = use{c, ctx, own, c.pooled}
	c.change(pooled{pool: &p.pool, key: key})
	return u, nil
}

// change makes a call use a pool, also while a request that was left behind has it wait.
func (c *call) change(to pooled) {
	if c.queue != nil {
		c.weigh(-1)
		defer c.weigh(1)
	}
	c.pooled = to
}

// leave ends a call, also after a panic.
func (p *pool) leave(u use) {
	c := u.call
	if n := c.conn; n != nil && n.busy {
		p.close(n)
		n.dialed, n.busy = false, false
	}
	unlock := p.g.lock()
	closed := p.closed
	c.pinned = false
	c.putConn()
	c.change(u.outer)
	unlock()
	if u.own {
		c.end()
	}
	if closed {
		p.expire(nil)
	}
}

// open dials the connection of an admitted call, unless it has one. If the dial fails, the call keeps its place.
func (p *Pool[K, C]) open(ctx context.Context, c *call) (err error) {
	n := c.conn
	if old := n.evicted; old != nil {
		n.evicted = nil
		p.close(old)
	}
	if n.dialed && n.rested && p.cfg.Healthy != nil && !p.cfg.Healthy(as[K](n.key), as[C](n.c)) {
		n.dialed = false
		p.close(n)
	}
	n.rested = false
	if !n.dialed {
		if n.c, err = p.cfg.Dial(ctx, as[K](n.key)); err != nil {
			return err
		}
		n.dialed = true
	}
	return nil
}

// expire closes an idle connection, or if one is nil, all idle connections, now and later.
func (p *pool) expire(one *conn) {
	p.g.mu.Lock()
	var old []*conn
	if one == nil {
		old, p.idle, p.closed = p.idle, nil, true
	} else if i := slices.Index(p.idle, one); i >= 0 {
		old, p.idle = []*conn{one}, slices.Delete(p.idle, i, i+1)
	}
	p.used -= len(old)
	p.g.mu.Unlock()
	for _, n := range old {
		p.close(n)
	}
}
