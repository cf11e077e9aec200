package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/blame"
)

// A pool counts the connections to a node that are ready: the server has answered on them. A
// decision begins only when one of them is free, so its Timeout never pays for a dial, TLS or
// HELLO. Connections are made in goroutines of their own, within DialTimeout.
type pool struct {
	mu     sync.Mutex
	free   int // ready, and not in use
	ready  int // free or in use
	making int

	waiters []chan error // in order, each for one value
	spare   sync.Pool    // of channels: those of one store, which belong to its synctest bubble
}

// waitLocked adds a waiter at the end.
func (c *pool) waitLocked() chan error {
	turn, ok := c.spare.Get().(chan error)
	if !ok {
		turn = make(chan error, 1)
	}
	c.waiters = append(c.waiters, turn)
	return turn
}

// leave removes a waiter, and reports whether it still waited. The first to time out is usually the
// first in order.
func (c *pool) leave(turn chan error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiters, turn)
	switch {
	case at == 0:
		c.waiters = c.waiters[1:]
	case at > 0:
		c.waiters = slices.Delete(c.waiters, at, at+1)
	}
	return at >= 0
}

// connect waits until a connection to the node is free, or ctx ends. It returns the outcome of an
// error for the breaker.
func (n *node) connect(ctx context.Context) (core.Outcome, error) {
	if n.pool.take() {
		return core.Success, nil
	}
	err := n.await(ctx)
	if err == nil {
		return core.Success, nil
	}
	outcome := outcomeOf(err)
	if n.connections() > 0 {
		outcome = core.Ignored // the server replies to other requests
	}
	return outcome, unsent(explain(err))
}

// ended counts the outcome of a request. If the breaker is open after it, no connection counts as
// ready any more.
func (n *node) ended(permit breaker.Permit, outcome core.Outcome) {
	permit.Done(outcome)
	if outcome == core.Failure && n.guard.State() != breaker.Closed {
		n.pool.doubt()
	}
}

// late reports whether ctx leaves less time than a round trip takes.
func (n *node) late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < time.Duration(n.trip.Load())
}

// take takes a free connection, and reports whether there was one.
func (c *pool) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free == 0 {
		return false
	}
	c.free--
	return true
}

// await waits for a connection, until ctx ends.
func (n *node) await(ctx context.Context) error {
	c := &n.pool
	c.mu.Lock()
	if c.free > 0 {
		c.free--
		c.mu.Unlock()
		return nil
	}
	turn := c.waitLocked()
	n.makeLocked() //nolint:contextcheck // it continues without this request
	c.mu.Unlock()
	defer c.spare.Put(turn)
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
		if c.leave(turn) {
			return n.none(ctx.Err())
		}
		return <-turn // it came at the last moment; the request checks its deadline
	}
}

// none returns the error of a request that had no connection.
func (n *node) none(err error) error {
	if n.exhausted() {
		return fmt.Errorf("%w: %w", redis.ErrPoolTimeout, err)
	}
	return fmt.Errorf("no connection is ready: %w", err)
}

// release gives a connection back after a request. If that failed without a reply, the client has
// closed the connection. If the connection was lost, the free connections must be tried again.
func (n *node) release(err error) {
	c := &n.pool
	if err == nil || isServerError(err) {
		c.mu.Lock()
		c.giveLocked()
		c.mu.Unlock()
		return
	}
	if !blame.Timeout(err) && !isCanceled(err) {
		c.doubt()
	}
	c.mu.Lock()
	c.ready--
	n.makeLocked()
	c.mu.Unlock()
}

// doubt drops the free connections from the count: the next request finds out whether they still
// work.
func (c *pool) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready, c.free = c.ready-c.free, 0
}

// giveLocked gives a connection to the first waiter.
func (c *pool) giveLocked() {
	if len(c.waiters) == 0 {
		c.free++
		return
	}
	c.waiters[0] <- nil
	c.waiters = c.waiters[1:]
}

// mostMade is the number of connections to a node that are made at a time: TLS needs much CPU.
const mostMade = 8

// makeLocked starts a connection for each waiter, up to the size of the client's pool; until the
// server has answered, only one.
func (n *node) makeLocked() {
	c, most := &n.pool, n.size
	if c.ready == 0 {
		most = 1
	}
	want := len(c.waiters)
	if want > 0 && n.store.cfg.Mode == Coalesced && n.distant() {
		want = max(want, lanes*overlaps-c.ready)
	}
	for c.making < min(want, mostMade) && c.ready+c.making < most {
		c.making++
		go n.make()
	}
}

// make makes one connection. It continues if the calls that wait for it have ended, until Close.
func (n *node) make() {
	ctx, cancel := context.WithTimeout(n.store.making, n.store.cfg.dialTimeout())
	defer cancel()
	err := n.greet(ctx)
	c := &n.pool
	c.mu.Lock()
	c.making--
	switch {
	case err == nil:
		c.ready++
		c.giveLocked()
		n.makeLocked()
	case c.ready == 0:
		for _, turn := range c.waiters {
			turn <- err
		}
		c.waiters = nil
	}
	c.mu.Unlock()
	if err == nil && n.guard.State() == breaker.Open {
		_ = n.guard.SetState(breaker.HalfOpen) // the next decision tries it, without a further delay
	}
}

// A processor sends commands.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipelined(ctx context.Context, fn func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

// greet has the client make a connection, by a command that any server answers. The first one
// inspects the server.
func (n *node) greet(ctx context.Context) error {
	s := n.store
	if c, ok := s.client.(*redis.ClusterClient); ok && n == s.first {
		_, err := c.MasterForKey(ctx, s.cfg.prefix()) // so the client learns the slots
		return err
	}
	to := n.processor()
	idle, idlePiped := n.idle()
	piped := make(chan error, 1)
	if s.cfg.Mode == Coalesced { // several commands go out over other connections
		go func() {
			piped <- anew(ctx, idlePiped, func() error {
				_, err := to.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Process(ctx, newSingle(ctx, "ping")) })
				return err
			})
		}()
	} else {
		piped <- nil
	}
	if err := anew(ctx, idle, func() error { return s.inspect(ctx, to) }); err != nil {
		return err
	}
	if err := standing(<-piped); err != nil || n.trip.Load() > 0 {
		return err
	}
	took, err := ping(ctx, to)
	n.observe(took)
	return err
}

// idle returns the number of idle connections in the pools of the client: they might have been
// cut.
func (n *node) idle() (single, piped uint32) {
	stats := n.store.client.PoolStats()
	if c := n.client.Load(); c != nil {
		stats = c.PoolStats()
	}
	if stats.PipelineStats == nil {
		return stats.IdleConns, stats.IdleConns
	}
	return stats.IdleConns, stats.PipelineStats.IdleConns
}

// anew calls f again while it meets connections that were cut while idle, which the client does
// not detect with TLS. Each time the client closes one.
func anew(ctx context.Context, idle uint32, f func() error) error {
	err := f()
	for ; idle > 0 && cut(err) && ctx.Err() == nil; idle-- {
		err = f()
	}
	return err
}

// cut reports whether a connection that was there has ended.
func cut(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &op) && op.Op != "dial" && !op.Timeout()
}

// inspect is Check, until the server was found to be fit; after that it only waits for a reply.
func (s *Store) inspect(ctx context.Context, to processor) error {
	if s.inspected.Load() == inspectedFit {
		_, err := ping(ctx, to)
		return err
	}
	problem, err := s.ask(ctx, to)
	if problem != nil {
		go s.warn(problem) // it can close the store
	}
	if s.inspected.Load() == inspectedFit {
		return nil
	}
	return err
}

// A single is a command that is sent once.
type single struct{ *redis.StringCmd }

// NoRetry is true.
func (single) NoRetry() bool { return true }

func newSingle(ctx context.Context, name string) single {
	return single{redis.NewStringCmd(ctx, name)}
}

// ping measures a round trip.
func ping(ctx context.Context, to processor) (time.Duration, error) {
	begun := time.Now()
	err := to.Process(ctx, newSingle(ctx, "ping"))
	return time.Since(begun), standing(err)
}

// standing returns an error after which a connection is not ready. If the user is not allowed to
// send a command, the connection is ready all the same.
func standing(err error) error {
	if isServerError(err) && !transient(err) {
		return nil
	}
	return err
}

// processor is the client of the node.
func (n *node) processor() processor {
	if c := n.client.Load(); c != nil {
		return c
	}
	return n.store.client
}

// exhausted reports whether all connections of the client's pool are in use.
func (n *node) exhausted() bool {
	c := n.client.Load()
	if c == nil {
		return false
	}
	stats := c.PoolStats()
	return stats.IdleConns == 0 && int(stats.TotalConns) >= c.Options().PoolSize
}

// connections returns the number of ready connections.
func (n *node) connections() int {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	return n.pool.ready
}

// named returns the error of a request; if the pool had no free connection, the error says so.
func (n *node) named(err error) error {
	if (err == context.DeadlineExceeded || err == context.Canceled) && n.exhausted() { //nolint:errorlint // as the pool returns them, without a connection
		return n.none(err)
	}
	return err
}
