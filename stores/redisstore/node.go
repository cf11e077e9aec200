package redisstore

import (
	"context"
	"errors"
	"maps"
	"math"
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
	store  *Store
	guard  *breaker.Breaker
	client atomic.Pointer[redis.Client] // nil if it is not known
	size   int                          // connections that the client makes at most
	pool   pool
	trip   atomic.Int64 // the round trip, in ns: the shortest of late

	lanes [lanes]lane
	base  time.Time
	asked atomic.Int64 // when it was asked last, from base
	held  atomic.Int64 // until when nothing is sent for a table with a share, from base

	scripts sync.Map // those that the server is taken to know
}

// maxNodes is how many are known at once: a Cluster whose servers come and go has others some day.
const maxNodes = 1024

func (s *Store) newNode() *node {
	n := &node{store: s, guard: newGuard(), base: time.Now(), size: math.MaxInt}
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
// where it is not for a Cluster or a Ring. It waits for nothing.
func (s *Store) nodeOf(key string) *node {
	var (
		master *redis.Client
		err    error
	)
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		master, err = c.MasterForKey(over, key) // so it is not asked for
	case *redis.Ring:
		master, err = c.GetShardClientForKey(key)
	default:
		return s.first
	}
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
		n.of(master)
		s.nodes[addr] = n
	}
	if n.client.Load() != master { // the client has made it anew
		n.client.Store(master)
	}
	return n
}

// of has a node belong to a client of its own.
func (n *node) of(c *redis.Client) {
	n.client.Store(c)
	n.size = c.Options().PoolSize
	if most := c.Options().MaxActiveConns; most > 0 {
		n.size = min(n.size, most)
	}
}

// knows reports whether the server is taken to know a script; learn says so. Otherwise its text is sent
// at once, which saves the round trip of a NOSCRIPT reply.
func (n *node) knows(is *script) bool {
	_, known := n.scripts.Load(is)
	return known
}

func (n *node) learn(is *script) { n.scripts.Store(is, true) }

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
