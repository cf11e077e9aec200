package redisstore

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/failover"
)

// A node is a server, with the requests for it and its availability: the nodes of a Cluster do not
// wait for each other.
type node struct {
	pool

	store  *Store
	guard  *breaker.Breaker
	conns  failover.Conns
	client atomic.Pointer[redis.Client] // nil if it is not known
	size   int                          // connections that the client makes at most
	trip   atomic.Int64                 // the round trip, in ns: the shortest of late

	lanes [lanes]lane
	base  time.Time
	asked atomic.Int64 // time of the last request, from base

	scripts sync.Map // that the server probably has
}

// maxNodes is the number of nodes that are kept: in a Cluster whose servers change, old nodes are
// dropped.
const maxNodes = 1024

func (s *Store) newNode() *node {
	n := &node{store: s, guard: newGuard(), base: time.Now(), size: math.MaxInt}
	n.spare.New = func() any { return make(chan error, 1) }
	for i := range n.lanes {
		n.lanes[i].store, n.lanes[i].node = s, n
	}
	return n
}

// allNodes returns the known nodes.
func (s *Store) allNodes() []*node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq([]*node{s.first}, maps.Values(s.nodes))
}

// unavailable reports whether a server in use counts as unavailable. A server of a Cluster can be gone
// for good; it is not in use if it gets no more requests.
func (s *Store) unavailable() bool {
	return slices.ContainsFunc(s.allNodes(), func(n *node) bool {
		idle := int64(time.Since(n.base)) - n.asked.Load()
		return n.guard.State() != breaker.Closed && (s.single || idle < int64(unused))
	})
}

// unused is the time without requests after which a server of a Cluster is not in use.
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
	var master *redis.Client
	var err error
	switch c := s.client.(type) {
	case *redis.ClusterClient:
		master, err = c.MasterForKey(over, key) // so no request is sent
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
			clear(s.nodes) // requests in their lanes are sent all the same
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

// of gives a node a client of its own.
func (n *node) of(c *redis.Client) {
	n.client.Store(c)
	n.size = c.Options().PoolSize
	if most := c.Options().MaxActiveConns; most > 0 {
		n.size = min(n.size, most)
	}
	n.most = c.Options().MaxIdleConns
	if idle := c.Options().ConnMaxIdleTime; idle > 0 {
		n.lasts = max(idle-n.store.cfg.timeout()-coarse, idle/2)
	}
}

// coarse is how much longer a connection can be idle by the clock of the client, which reads it each 50ms.
const coarse = 100 * time.Millisecond

// send calls f, which sends a command once, and again over another connection if the server has refused it
// because it is not the primary.
func (n *node) send(ctx context.Context, f func() error) error {
	return n.conns.Do(ctx, n.processor(), func() error {
		err := f()
		if failover.Refused(err) {
			n.doubt()
			n.scripts.Clear() // the next server can lack them
		}
		return err
	})
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
