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
	"github.com/gresil/gresil/internal/failover"
)

// A pool counts the connections to a node that are ready: the server has answered on them. A
// decision begins only when one of them is free, so its Timeout does not pay for a dial, TLS or
// HELLO, unless the client finds only then that the connection was cut or is older than
// ConnMaxLifetime. Connections are made in goroutines of their own, within DialTimeout.
type pool struct {
	mu     sync.Mutex
	free   []time.Time // ready, and not in use: when each was given back; the last is used first, as by the client
	ready  int         // free or in use
	making int
	most   int           // free at most: the client closes more of them; 0 is no limit
	lasts  time.Duration // after which the client closes one that is not used; 0 is never

	waiters []chan error // in order, each for one value
	spare   sync.Pool    // of channels: those of one store, which belong to its synctest bubble
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

// connect returns the node that has a key, and takes a connection to it.
func (s *Store) connect(ctx context.Context, key string) (*node, error) {
	for {
		to := s.nodeOf(key)
		if _, err := to.connect(ctx); err != nil {
			return nil, err
		}
		if !s.routes(to, key) {
			return to, nil
		}
		to.release(nil)
	}
}

// ended counts the outcome of a request. If the breaker is open after it, no connection counts as
// ready any more.
func (n *node) ended(permit breaker.Permit, outcome core.Outcome) {
	permit.Done(outcome)
	if outcome == core.Failure && n.guard.State() != breaker.Closed {
		n.doubt()
	}
}

// late reports whether ctx leaves less time than a round trip takes.
func (n *node) late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < time.Duration(n.trip.Load())
}

// take takes a free connection, and reports whether there was one.
func (c *pool) take(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked(now)
}

func (c *pool) takeLocked(now time.Time) bool {
	last := len(c.free) - 1
	if last < 0 {
		return false
	}
	if c.lasts > 0 && now.Sub(c.free[last]) >= c.lasts {
		c.doubtLocked() // the others are older
		return false
	}
	c.free = c.free[:last]
	return true
}

// await waits for a connection, until ctx ends.
func (n *node) await(ctx context.Context) error {
	n.mu.Lock()
	if n.takeLocked(time.Now()) {
		n.mu.Unlock()
		return nil
	}
	turn := n.spare.Get().(chan error) //nolint:forcetypeassert // nothing else is stored
	n.waiters = append(n.waiters, turn)
	n.makeLocked()
	n.mu.Unlock()
	defer n.spare.Put(turn)
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
		if n.leave(turn) {
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

// release gives a connection back after a request. If that failed without a reply, or the server is not
// the primary, the client has closed the connection. If the connection was lost, or the client has closed
// others, the free connections must be tried again.
func (n *node) release(err error) {
	if err == nil || isServerError(err) && !failover.Refused(err) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.giveLocked()
		return
	}
	if !isCanceled(err) && (!blame.Timeout(err) || n.fewer()) {
		n.doubt()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready--
	n.makeLocked()
}

// doubt drops the free connections from the count: the next request finds out whether they still
// work.
func (c *pool) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubtLocked()
}

func (c *pool) doubtLocked() { c.ready, c.free = c.ready-len(c.free), c.free[:0] }

// fewer reports whether the client has fewer idle connections than count as free. It closes those
// that were cut when it looks for one to use.
func (n *node) fewer() bool {
	idle, piped := n.idle()
	if n.store.cfg.Mode == Coalesced { // a connection in each pool counts as one
		idle = min(idle, piped)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return int(idle) < len(n.free)
}

// giveLocked gives a connection to the first waiter.
func (c *pool) giveLocked() {
	switch {
	case len(c.waiters) > 0:
		c.waiters[0] <- nil
		c.waiters = c.waiters[1:]
	case c.most > 0 && len(c.free) >= c.most:
		c.ready-- // the client has closed it
	default:
		c.free = append(c.free, time.Now())
	}
}

// mostMade is the number of connections to a node that are made at a time: TLS needs much CPU.
const mostMade = 8

// makeLocked starts a connection for each waiter, up to the size of the client's pool. Until the
// server has answered, it is only one, for the next decision if none waits.
func (n *node) makeLocked() {
	want, most := len(n.waiters), n.size
	if n.ready == 0 {
		if most = 1; n.guard.State() == breaker.Closed { // otherwise a trial waits for its time
			want = max(want, 1)
		}
	}
	if want > 0 && n.store.cfg.Mode == Coalesced && n.distant() {
		want = max(want, lanes*overlaps-n.ready)
	}
	for n.making < min(want, mostMade) && n.ready+n.making < most {
		n.making++
		go n.make()
	}
}

// make makes one connection. It continues if the calls that wait for it have ended, until Close.
func (n *node) make() {
	ctx, cancel := context.WithTimeout(n.store.making, n.store.cfg.dialTimeout())
	defer cancel()
	err := n.greet(ctx)
	n.mu.Lock()
	n.making--
	switch {
	case err == nil:
		n.ready++
		n.giveLocked()
		n.makeLocked()
	case n.ready == 0:
		for _, turn := range n.waiters {
			turn <- err
		}
		n.waiters = nil
	}
	n.mu.Unlock()
	if err == nil && n.guard.State() == breaker.Open {
		_ = n.guard.SetState(breaker.HalfOpen) // the next decision tries it, without a further delay
	}
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
			piped <- n.anew(ctx, idlePiped, func() error {
				_, err := to.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Process(ctx, newSingle(ctx, "ping")) })
				return err
			})
		}()
	} else {
		piped <- nil
	}
	if err := n.anew(ctx, idle, func() error { return s.inspect(ctx, to) }); err != nil {
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
	stats := n.processor().PoolStats()
	if stats.PipelineStats == nil {
		return stats.IdleConns, stats.IdleConns
	}
	return stats.IdleConns, stats.PipelineStats.IdleConns
}

// anew sends a command again while it meets connections that were cut while idle, which the client
// does not detect with TLS. Each time the client closes one.
func (n *node) anew(ctx context.Context, idle uint32, f func() error) error {
	return n.send(ctx, func() error {
		err := f()
		for ; idle > 0 && cut(err) && ctx.Err() == nil; idle-- {
			err = f()
		}
		return err
	})
}

// cut reports whether a connection that was there has ended.
func cut(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		ok && op.Op != "dial" && !op.Timeout()
}

// inspect is Check, until the server was found to be fit; after that it only waits for a reply.
func (s *Store) inspect(ctx context.Context, to redis.UniversalClient) error {
	if s.inspected.Load().fit() {
		_, err := ping(ctx, to)
		return err
	}
	problem, err := s.ask(ctx, to)
	if problem != nil {
		go s.warn(problem) // it can close the store
	}
	if s.inspected.Load().fit() {
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
func ping(ctx context.Context, to redis.UniversalClient) (time.Duration, error) {
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

// processor is the client of the node or, if it is not known, of all.
func (n *node) processor() redis.UniversalClient {
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
	return stats.IdleConns == 0 && int(stats.TotalConns) >= n.size
}

// connections returns the number of ready connections.
func (n *node) connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ready
}

// named returns the error of a request; if the pool had no free connection, the error says so.
func (n *node) named(err error) error {
	if (err == context.DeadlineExceeded || err == context.Canceled) && n.exhausted() { //nolint:errorlint // as the pool returns them, without a connection
		return n.none(err)
	}
	return err
}
