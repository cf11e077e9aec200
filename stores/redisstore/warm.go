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

// wait waits for connections that are made in the background, until ctx ends. It does so only if no connection is free,
// and the server is so far away that a request has no time to make one.
func (n *node) wait(ctx context.Context) {
	if 5*n.trip.Load() < int64(n.store.cfg.timeout()) || n.idle() > 0 || n.full() {
		return
	}
	select {
	case <-n.warm(): //nolint:contextcheck // connections are made for later requests too
	case <-ctx.Done():
	}
}

// warm makes connections in the background: first one, and when the server has answered on it, as many as there are
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
		if n.store.mode() != Strict && n.distant() {
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

// warmTime limits the time for making connections in the background: each takes five round trips, with TLS seven.
func (s *Store) warmTime() time.Duration { return max(opTimeout, 10*s.cfg.timeout()) }

// mostMade is the highest number of connections to a node that are made at once.
const mostMade = 64

// connect waits for a reply of the node. If it gets a connection that was cut while idle, which the client does not detect with TLS, it has
// the client close the idle ones, and asks again.
func (n *node) connect(ctx context.Context) error {
	c, clustered := n.store.client.(*redis.ClusterClient)
	if clustered && n == n.store.first {
		_, err := c.MasterForKey(ctx, n.store.cfg.prefix()) // so the client learns the slots
		return err
	}
	err := n.ping(ctx)
	if cut(err) {
		n.conns.Close(ctx, n.processor())
		err = n.ping(ctx)
	}
	if clustered && err != nil {
		c.ReloadState(ctx) // another server can have its slots now; the client would ask for them once a minute
	}
	return err
}

// cut reports whether an existing connection was cut.
func cut(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		ok && op.Op != "dial" && !op.Timeout()
}

// ping sends a command that any server answers, over the same kind of connection that decisions use.
func (n *node) ping(ctx context.Context) error {
	began := time.Now()
	var err error
	if n.store.mode() != Strict {
		_, err = n.processor().Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Ping(ctx).Err() })
	} else {
		err = n.processor().Ping(ctx).Err()
	}
	if isServerError(err) && !transient(err) { // PING is not allowed, but the connection is ready
		err = nil
	}
	if err == nil {
		n.observe(time.Since(began))
	}
	return err
}

// idle returns the number of idle connections in the pool that decisions use: pipelines have a pool of their own.
func (n *node) idle() uint32 {
	stats := n.processor().PoolStats()
	if n.store.mode() != Strict && stats.PipelineStats != nil {
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

// observe notes how long a round trip took. The shortest recent one counts, so that a server that was busy for a moment
// is not taken for a distant one; each longer one raises it by an eighth at most.
func (n *node) observe(took time.Duration) {
	last := n.trip.Load()
	if last == 0 || int64(took) < last {
		n.trip.Store(int64(took))
	} else {
		n.trip.Store(min(int64(took), last+last/8))
	}
}

// distant reports whether a batch could exceed Timeout if it waited for the reply to the previous one.
func (n *node) distant() bool { return time.Duration(n.trip.Load()) > n.store.cfg.timeout()/3 }
