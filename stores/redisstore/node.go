package redisstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/breaker"
)

// A node is a server, with what is to be sent to it and whether it is away: those of a Cluster
// do not wait for each other.
type node struct {
	guard *breaker.Breaker
	lanes [lanes]lane
	base  time.Time
	asked atomic.Int64 // when it was asked last, from base
	held  atomic.Int64 // until when nothing is sent for a table with a share, from base

	scripts sync.Map // those it is taken to know, of which another has to follow in order
}

// maxNodes is how many are known at once: a Cluster whose servers come and go has others some day.
const maxNodes = 1024

func (s *Store) newNode() *node {
	n := &node{guard: newGuard(), base: time.Now()}
	for i := range n.lanes {
		n.lanes[i].store, n.lanes[i].node = s, n
	}
	return n
}

// allNodes are those that are known.
func (s *Store) allNodes() []*node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq([]*node{s.first}, maps.Values(s.nodes))
}

// hold begins the time in which nothing is sent for a table with a share, if err says that the
// server is away: so one that comes and goes is not asked and given up in turn.
func (n *node) hold(err error) error {
	if errors.Is(err, ErrAway) {
		n.held.Store(int64(time.Since(n.base) + localHold))
	}
	return err
}

// holds tells whether that time is on.
func (n *node) holds() bool { return int64(time.Since(n.base)) < n.held.Load() }

// away tells whether a server is taken to be away that is in use: of a Cluster one may be gone
// for good, and nobody asks for it any more.
func (s *Store) away() bool {
	return slices.ContainsFunc(s.allNodes(), func(n *node) bool {
		idle := int64(time.Since(n.base)) - n.asked.Load()
		return n.guard.State() != breaker.Closed && (s.single || idle < int64(unused))
	})
}

// unused is how long a server of a Cluster is not asked until it does not count.
const unused = 10 * time.Second

// over is a context that has ended.
var over = func() context.Context { //nolint:gochecknoglobals // a constant
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// nodeOf is the server that has a key. All are one until the client knows which there are, and
// where it is not for a Cluster. It waits for nothing.
func (s *Store) nodeOf(key string) *node {
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.first
	}
	master, err := c.MasterForKey(over, key) // so it is not asked for
	if err != nil {
		return s.first
	}
	addr := master.Options().Addr
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[addr]
	if n == nil {
		if len(s.nodes) >= maxNodes {
			clear(s.nodes) // what waits in their lanes is sent all the same
		}
		n = s.newNode()
		s.nodes[addr] = n
	}
	return n
}
