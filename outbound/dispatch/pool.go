package dispatch

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/waitq"
)

// A pool holds connections by key, with one capacity over all keys. A connection is idle,
// or belongs to one call. While calls wait, no connection is idle and no place is free.
type pool[K comparable, C any] struct {
	name   string
	config func() *Config[K, C]
	guard  func()    // deferred around Close: it recovers panics
	base   time.Time // all times are counted from here

	mu             sync.Mutex
	used           int                // places: of connections, and of those being dialed
	stacks         map[K]*stack[K, C] // idle ones, by key; a stack can be empty
	first, last    *conn[K, C]        // idle ones: the oldest, the newest
	idle           int
	queue          waitq.Queue[claim[K, C]]
	timer          *time.Timer // closes idle connections; nil until one is idle
	armed          bool
	closed         bool
	dials, evicted uint64
}

// A conn is a connection.
type conn[K comparable, C any] struct {
	key          K
	c            C
	since        time.Duration // it is idle
	older, newer *conn[K, C]
	below, above *conn[K, C] // of the same key
	stack        *stack[K, C]
}

// A stack has the idle connections of a key.
type stack[K comparable, C any] struct{ newest *conn[K, C] }

// A claim is the right of a call to a connection, or to a place in which it dials. An evicted
// connection must be closed first.
type claim[K comparable, C any] struct {
	key     K
	granted bool
	conn    *conn[K, C]
	evicted *conn[K, C]
}

// busy reports whether calls wait.
func (p *pool[K, C]) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len() > 0
}

// reuse returns an idle connection of a key, or nil.
func (p *pool[K, C]) reuse(key K) *conn[K, C] {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pop(key)
}

// get returns a connection of a key. If the call must wait, waiting is called before, and
// connected after the wait.
func (p *pool[K, C]) get(ctx context.Context, key K, waiting, connected func()) (*conn[K, C], error) {
	got, w := p.enter(key)
	if w != nil {
		if err := p.await(ctx, w, waiting, connected); err != nil {
			return nil, err
		}
		got = w.Value
	}
	return p.open(ctx, got)
}

// enter returns a claim that is granted, or a waiter. It panics if K is an interface and
// key cannot be compared.
func (p *pool[K, C]) enter(key K) (claim[K, C], *waitq.Waiter[claim[K, C]]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := claim[K, C]{key: key}
	if p.grant(&got); got.granted {
		return got, nil
	}
	return got, p.queue.Push(got, 1)
}

// await waits until w has a claim.
func (p *pool[K, C]) await(ctx context.Context, w *waitq.Waiter[claim[K, C]], waiting, connected func()) error {
	taken := false
	defer func() {
		if taken {
			return
		}
		p.mu.Lock()
		w.Leave()
		p.mu.Unlock()
		p.giveUp(w.Value)
	}()
	waiting()
	err := w.Await(ctx, nil, func() (time.Duration, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return time.Hour, w.Value.granted
	})
	if err == nil {
		connected()
		taken = true
	}
	return err
}

// giveUp returns the claim of a call that does not use it.
func (p *pool[K, C]) giveUp(got claim[K, C]) {
	switch {
	case got.conn != nil:
		p.put(got.conn)
	case got.granted:
		p.free(got.evicted)
	}
}

// grant gives a call an idle connection of its key, a free place, or the place of the
// oldest idle connection, if there is any of these.
func (p *pool[K, C]) grant(to *claim[K, C]) {
	switch n := p.pop(to.key); {
	case n != nil:
		to.conn = n
	case p.used < p.config().Capacity:
		p.used++
	case p.first != nil && p.used == p.config().Capacity:
		to.evicted = p.first
		p.evicted++
		p.remove(p.first)
	default:
		return
	}
	to.granted = true
}

// pop takes the newest of the idle connections of a key. It is nil if there is none.
func (p *pool[K, C]) pop(key K) *conn[K, C] {
	own := p.stacks[key]
	if own == nil || own.newest == nil {
		return nil
	}
	n := own.newest
	p.remove(n)
	return n
}

// serve grants the claims of the waiters, in the order of their arrival.
func (p *pool[K, C]) serve() {
	for w := p.queue.First(); w != nil; w = p.queue.First() {
		if p.grant(&w.Value); !w.Value.granted {
			return
		}
		w.Leave()
	}
}

// open makes a connection of a claim.
func (p *pool[K, C]) open(ctx context.Context, got claim[K, C]) (n *conn[K, C], err error) {
	left := false // the place, to a Dial that still runs
	defer func() {
		if n == nil && !left { // also if a function of the user's panics
			p.free(got.conn)
		}
	}()
	if got.evicted != nil {
		p.close(got.evicted)
	}
	for healthy := p.config().Healthy; got.conn != nil; {
		if healthy == nil || healthy(got.key, got.conn.c) {
			return got.conn, nil
		}
		sick := got.conn
		got.conn = nil
		p.close(sick)
		p.mu.Lock()
		if got.conn = p.pop(got.key); got.conn != nil {
			p.used--
			p.serve()
		}
		p.mu.Unlock()
	}
	n, left, err = p.dial(ctx, got.key)
	return n, err
}

// put makes the connection of a call idle, or passes it on.
func (p *pool[K, C]) put(n *conn[K, C]) {
	p.mu.Lock()
	if p.closed || p.used > p.config().Capacity {
		p.mu.Unlock()
		p.free(n)
		return
	}
	p.push(n)
	p.serve()
	if !p.armed {
		p.arm()
	}
	p.mu.Unlock()
}

// free closes a connection, if there is one, and frees its place.
func (p *pool[K, C]) free(n *conn[K, C]) {
	defer func() { // also if Close ends the goroutine
		p.mu.Lock()
		defer p.mu.Unlock()
		p.used--
		p.serve()
	}()
	if n != nil {
		p.close(n)
	}
}

// freeAll frees connections that were idle.
func (p *pool[K, C]) freeAll(old []*conn[K, C]) {
	if len(old) > 0 {
		defer p.freeAll(old[1:]) // also if Close ends the goroutine
		p.free(old[0])
	}
}

func (p *pool[K, C]) close(n *conn[K, C]) { p.closeConn(n.key, n.c) }

func (p *pool[K, C]) closeConn(key K, c C) {
	if f := p.config().Close; f != nil {
		defer p.guard()
		f(key, c)
	}
}

func (p *pool[K, C]) now() time.Duration { return time.Since(p.base) }

// push adds an idle connection.
func (p *pool[K, C]) push(n *conn[K, C]) {
	own := p.stacks[n.key]
	if own == nil {
		if len(p.stacks) > 2*p.config().Capacity {
			maps.DeleteFunc(p.stacks, func(_ K, s *stack[K, C]) bool { return s.newest == nil })
		}
		own = &stack[K, C]{}
		p.stacks[n.key] = own
	}
	n.since, n.older, n.below, n.stack = p.now(), p.last, own.newest, own
	if n.below != nil {
		n.below.above = n
	}
	own.newest = n
	if n.older != nil {
		n.older.newer = n
	} else {
		p.first = n
	}
	p.last = n
	p.idle++
}

// remove takes a connection from the idle ones.
func (p *pool[K, C]) remove(n *conn[K, C]) {
	if n.above != nil {
		n.above.below = n.below
	} else {
		n.stack.newest = n.below
	}
	if n.below != nil {
		n.below.above = n.above
	}
	if n.older != nil {
		n.older.newer = n.newer
	} else {
		p.first = n.newer
	}
	if n.newer != nil {
		n.newer.older = n.older
	} else {
		p.last = n.older
	}
	n.older, n.newer, n.below, n.above, n.stack = nil, nil, nil, nil, nil
	p.idle--
}

// arm starts the timer for the oldest idle connection.
func (p *pool[K, C]) arm() {
	most := p.config().IdleTime
	if p.first == nil || most < 0 {
		return
	}
	p.armed = true
	if wait := p.first.since + most - p.now(); p.timer == nil {
		p.timer = time.AfterFunc(wait, p.expire)
	} else {
		p.timer.Reset(wait)
	}
}

// expire closes the connections that were idle for too long.
func (p *pool[K, C]) expire() {
	p.mu.Lock()
	p.armed = false
	var old []*conn[K, C]
	for most := p.config().IdleTime; most >= 0 && p.first != nil && p.now()-p.first.since >= most; {
		old = append(old, p.first)
		p.remove(p.first)
	}
	p.arm()
	p.mu.Unlock()
	p.freeAll(old)
}

// trim closes idle connections beyond the capacity, or all of a closed pool, and serves
// the waiters. Connections in use are closed when they are returned.
func (p *pool[K, C]) trim() {
	p.mu.Lock()
	var old []*conn[K, C]
	for over := p.used - p.config().Capacity; p.first != nil && (p.closed || over > 0); over-- {
		old = append(old, p.first)
		p.remove(p.first)
	}
	p.serve()
	if p.timer != nil {
		p.timer.Stop()
		p.armed = false
	}
	p.arm() // IdleTime may be another one
	p.mu.Unlock()
	p.freeAll(old)
}
