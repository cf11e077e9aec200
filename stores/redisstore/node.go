package redisstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/failover"
)

// A node is a server, with the requests for it and its availability. The nodes of a Cluster do not wait for each other.
// The connections are those of the client.
type node struct {
	store  *Store
	guard  *breaker.Breaker
	conns  failover.Conns
	client atomic.Pointer[redis.Client] // of this server; nil if it is not known
	size   int                          // the highest number of connections of the client

	trip    atomic.Int64 // the round trip, in ns: the shortest of the recent ones
	base    time.Time
	asked   atomic.Int64                  // time of the last request, from base
	replied atomic.Int64                  // time of the last reply, from base
	flying  atomic.Int64                  // requests under way
	warming atomic.Pointer[chan struct{}] // not nil while a goroutine makes connections, which closes it at its end

	lanes   [lanes]lane
	scripts sync.Map // the scripts that the server probably has
}

// maxNodes is the number of nodes that are kept. In a Cluster whose servers change, old nodes are dropped.
const maxNodes = 1024

func (s *Store) newNode(c *redis.Client) *node {
	n := &node{store: s, guard: newGuard(), base: time.Now(), size: math.MaxInt}
	for i := range n.lanes {
		n.lanes[i].store, n.lanes[i].node = s, n
	}
	if c != nil {
		n.client.Store(c)
		n.size = c.Options().PoolSize
		if most := c.Options().MaxActiveConns; most > 0 {
			n.size = min(n.size, most)
		}
	}
	return n
}

// allNodes returns the known nodes.
func (s *Store) allNodes() []*node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq([]*node{s.first}, maps.Values(s.nodes))
}

// unavailable reports whether a server that is in use is unavailable. A server of a Cluster can be gone for good: it is
// not in use if it gets no more requests.
func (s *Store) unavailable() bool {
	return slices.ContainsFunc(s.allNodes(), func(n *node) bool {
		return n.guard.State() != breaker.Closed && (s.single || n.now()-n.asked.Load() < int64(unused))
	})
}

// unused is the time without requests after which a server of a Cluster counts as not in use.
const unused = 10 * time.Second

// over is a context that has ended.
var over = func() context.Context { //nolint:gochecknoglobals // a constant
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// nodeOf returns the server that has a key. In a Cluster, it returns s.first until the client knows the servers. It
// does not wait.
func (s *Store) nodeOf(key string) *node {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.first
	}
	master, err := cluster.MasterForKey(over, key) // over has ended, so no request is sent
	if err != nil {
		return s.first
	}
	addr := master.Options().Addr
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[addr]
	if n == nil {
		if len(s.nodes) >= maxNodes {
			clear(s.nodes) // requests in their lanes are still sent
		}
		n = s.newNode(master)
		s.nodes[addr] = n
	}
	if n.client.Load() != master { // the client has replaced it
		n.client.Store(master)
	}
	return n
}

// now is the time from base.
func (n *node) now() int64 { return int64(time.Since(n.base)) }

// processor returns the client of the node or, if that is not known, the client of the store.
func (n *node) processor() redis.UniversalClient {
	if c := n.client.Load(); c != nil {
		return c
	}
	return n.store.client
}

// A trip is a request under way to a node.
type trip struct {
	node   *node
	permit breaker.Permit
	began  int64
}

// admit begins a request, unless the node is unavailable. It sends nothing, and does not wait. The caller must call
// ended once.
func (n *node) admit(ctx context.Context) (trip, error) {
	t := trip{node: n, began: n.now()}
	if !n.store.single {
		n.asked.Store(t.began)
	}
	var err error
	if t.permit, err = n.guard.Acquire(ctx); err != nil {
		return t, ErrUnavailable
	}
	n.flying.Add(1)
	return t, nil
}

// ended ends a request. written reports whether it was sent. If it was not sent, or the node has failed, connections
// are made for the next requests.
func (t trip) ended(outcome core.Outcome, written bool) {
	n := t.node
	n.flying.Add(-1)
	switch {
	case outcome == core.Success:
		n.replied.Store(n.now())
	case outcome == core.Failure && !written && n.replied.Load() >= t.began:
		outcome = core.Ignored // there was no connection for it, but the server answers on others
	}
	t.permit.Done(outcome)
	if outcome == core.Failure || outcome == core.Ignored && !written {
		n.warm()
	}
}

// named returns the error of a request. If the pool had no free connection, it says so.
func (n *node) named(err error) error {
	if (err == context.DeadlineExceeded || err == context.Canceled) && n.full() { //nolint:errorlint // as the pool returns them
		return fmt.Errorf("%w: %w", redis.ErrPoolTimeout, err)
	}
	return err
}

// send calls f, which sends a command once. If the server has refused it because it is not the primary, it calls f
// again over another connection.
func (n *node) send(ctx context.Context, f func() error) error {
	return n.conns.Do(ctx, n.processor(), f)
}
