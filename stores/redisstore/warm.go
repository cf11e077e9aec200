package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// wait waits until ctx ends for connections that are made in the background, if none is free and the server is so far
// away that a request has no time to make one.
func (n *node) wait(ctx context.Context) {
	if 5*n.trip.Load() < int64(n.store.cfg.timeout()) || n.idle() > 0 || n.full() {
		return
	}
	select {
	case <-n.warm():
	case <-ctx.Done():
	}
}

// warm makes connections in the background: first one, and when the server answers on that, as many as there are
// requests. It returns a channel that is closed at the end.
func (n *node) warm() <-chan struct{} {
	ended := make(chan struct{})
	if n.store.closed.Load() || !n.warming.CompareAndSwap(nil, &ended) {
		if other := n.warming.Load(); other != nil {
			return *other
		}
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		defer n.warming.Store(nil)
		ctx, cancel := context.WithTimeout(n.store.ctx, n.store.warmTime())
		defer cancel()
		if n.connect(ctx) != nil {
			return
		}
		requests := int(n.flying.Load())
		if n.store.mode() == Coalesced && n.distant() {
			requests = lanes * overlaps
		}
		if n.full() {
			return
		}
		var all sync.WaitGroup
		for range min(requests, n.size, mostMade) {
			all.Go(func() { _ = n.ping(ctx) })
		}
		all.Wait()
	}()
	return ended
}

// warmTime limits the time to make connections in the background: five round trips each, with TLS seven.
func (s *Store) warmTime() time.Duration { return max(opTimeout, 10*s.cfg.timeout()) }

// mostMade is the number of connections to a node that are made at a time.
const mostMade = 64

// connect waits for a reply of the node. If it meets a connection that was cut while idle, which the client does not detect
// with TLS, it has the client close the idle ones, and asks again.
func (n *node) connect(ctx context.Context) error {
	if c, ok := n.store.client.(*redis.ClusterClient); ok && n == n.store.first {
		_, err := c.MasterForKey(ctx, n.store.cfg.prefix()) // so the client learns the slots
		return err
	}
	err := n.ping(ctx)
	if cut(err) {
		n.conns.Close(ctx, n.processor())
		err = n.ping(ctx)
	}
	return err
}

// cut reports whether a connection that was there has ended.
func cut(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		ok && op.Op != "dial" && !op.Timeout()
}

// ping sends a command that any server answers, over a connection as decisions use it.
func (n *node) ping(ctx context.Context) error {
	began := time.Now()
	var err error
	if n.store.mode() == Coalesced {
		_, err = n.processor().Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Ping(ctx).Err() })
	} else {
		err = n.processor().Ping(ctx).Err()
	}
	if isServerError(err) && !transient(err) { // it is not allowed; the connection is ready all the same
		err = nil
	}
	if err == nil {
		n.observe(time.Since(began))
	}
	return err
}

// idle returns the number of connections in the pool that decisions use: several commands go out over other ones.
func (n *node) idle() uint32 {
	stats := n.processor().PoolStats()
	if n.store.mode() == Coalesced && stats.PipelineStats != nil {
		return stats.PipelineStats.IdleConns
	}
	return stats.IdleConns
}

// full reports whether all connections of the client's pool are in use.
func (n *node) full() bool {
	c := n.client.Load()
	if c == nil {
		return false
	}
	stats := c.PoolStats()
	return stats.IdleConns == 0 && int(stats.TotalConns) >= n.size
}

// observe remembers how long a round trip took. The shortest counts, and less so the longer ago it
// was: a server that was busy for a moment is not a distant one.
func (n *node) observe(took time.Duration) {
	last := n.trip.Load()
	if last == 0 || int64(took) < last {
		n.trip.Store(int64(took))
	} else {
		n.trip.Store(min(int64(took), last+last/8))
	}
}

// distant reports whether a batch that waits for the reply to the one before could miss Timeout.
func (n *node) distant() bool { return time.Duration(n.trip.Load()) > n.store.cfg.timeout()/3 }
