package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
	"github.com/gresil/gresil/internal/validate"
)

// longest is the read timeout of a client copy, which observes the deadlines of contexts anyway.
const longest = 5 * time.Second

var errNoClient = validate.Bad("redisstore client", nil, "must be a *redis.Client or a *redis.ClusterClient")

// A Store is a [ratelimit.Store] in Redis. It is safe for concurrent use.
type Store struct {
	remove  func() // from the registry
	cfg     Config
	id      string // of this instance
	client  redis.UniversalClient
	single  bool  // all keys are on one server
	bare    bool  // client has no hooks
	first   *node // the only one, except in a Cluster
	seed    maphash.Seed
	wg      sync.WaitGroup // of lanes at work, and of the keeper
	leaving atomic.Bool    // no permits are taken in advance any more
	closed  atomic.Bool
	ending  sync.RWMutex // read-locked by operations that must not begin, or must complete, when Close has been called

	counters counters
	odd      oddKeys
	waiters  sync.Pool

	mu      sync.Mutex
	nodes   map[string]*node   // of a Cluster, by their addresses
	tables  map[string]*table  // by their names
	ones    map[string]*script // lua/one.lua, by the name of the limit
	takes   map[string]*script // lua/take.lua, by the names of the limits
	census  census
	keeping sync.Once
	every   time.Duration   // the time between beats
	life    time.Duration   // how long an instance without a beat is counted
	ctx     context.Context //nolint:containedctx // of the goroutines, until Close
	stop    context.CancelFunc

	clock func() time.Time // for tests; if nil, the server's clock is used
}

// New makes a store over a client, which the caller owns and closes. It sends nothing: call [Store.Check] to find out whether the server
// can be used. It returns the errors of [Config.Validate], or an error if the name is in use in the registry.
//
// The client is a [redis.Client], which redis.NewFailoverClient makes too, or a [redis.ClusterClient]. Without ContextTimeoutEnabled in its
// options, a client ignores the deadlines of contexts. So a ClusterClient needs that option. A Client without it is used through a copy
// that shares its connections, but has none of its hooks.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if identity.Missing(client) {
		return nil, errNoClient
	}
	s := &Store{
		cfg: cfg, id: rand.Text(), client: client, seed: maphash.MakeSeed(), every: beatEvery, life: beatLife,
		nodes: map[string]*node{}, tables: map[string]*table{}, ones: map[string]*script{}, takes: map[string]*script{},
	}
	switch c := client.(type) {
	case *redis.Client:
		if !c.Options().ContextTimeoutEnabled {
			c = c.WithTimeout(max(cfg.timeout(), longest))
			c.Options().ContextTimeoutEnabled = true
			s.client, s.bare = c, true
		}
		s.single = true
		s.first = s.newNode(c)
	case *redis.ClusterClient:
		if !c.Options().ContextTimeoutEnabled {
			return nil, validate.Bad("redis.ClusterOptions.ContextTimeoutEnabled", false,
				"must be true, otherwise a decision could take longer than Timeout")
		}
		s.first = s.newNode(nil)
	default:
		return nil, errNoClient
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	var err error
	if s.remove, err = limitstore.Register(cfg.Registry, "redisstore.Config.Name", cfg.name(), s); err != nil {
		return nil, err
	}
	return s, nil
}

// Open returns the table of a name. For the same name, it returns the same table. It sends nothing.
func (s *Store) Open(name string) (limits.Table, error) {
	if s.closed.Load() {
		return nil, limits.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[name]
	if t == nil {
		t = newTable(s, name)
		s.tables[name] = t
	}
	return t, nil
}

// Close ends the store: later operations fail, and so do operations that are not sent yet. It waits for operations that
// were sent. It removes this instance from the set of instances that share limits, and the store from its registry. All
// of this takes a few Timeouts at most, or a second or two if the server hangs. The state in the server stays, and the client stays open.
// Close the gates that use the store first: each frees its places and turns, which otherwise stay leased for up to 10 seconds.
func (s *Store) Close() error {
	if s.leaving.Swap(true) {
		return nil
	}
	s.endLeases()
	s.closed.Store(true)
	s.remove()
	for _, n := range s.allNodes() {
		for i := range n.lanes {
			n.lanes[i].drop(limits.ErrClosed)
		}
	}
	s.stop()
	s.ending.Lock()
	s.ending.Unlock() //nolint:staticcheck // earlier holders have finished, and later ones see that it is closed
	s.wg.Wait()
	return nil
}

// endLeases gives back the permits that were taken in advance.
func (s *Store) endLeases() {
	s.mu.Lock()
	tables := slices.Collect(maps.Values(s.tables))
	s.mu.Unlock()
	var all errgroup.Group
	all.SetLimit(maxBatch) // each has Timeout
	for _, t := range tables {
		if t.leases != nil {
			t.leases.end(&all)
		}
	}
	_ = all.Wait()
}

func (s *Store) hash(key string) uint64 { return maphash.String(s.seed, key) }

func (s *Store) mode() Mode { return cmp.Or(s.cfg.Mode, Strict) }

// time returns the argument for the time.
func (s *Store) time() string {
	if s.clock == nil {
		return ""
	}
	return number(s.clock().UnixMicro() - epoch)
}

// apply sends a request, and waits for the decision until Timeout or until ctx ends. ok is false if the value of its key could not be
// read.
func (s *Store) apply(ctx context.Context, req *request) (r limits.Result, ok bool, err error) {
	s.ending.RLock()
	defer s.ending.RUnlock()
	if s.closed.Load() {
		return r, false, limits.ErrClosed
	}
	if s.mode() != Strict {
		l, end := s.laneOf(req.key), time.Now().Add(s.cfg.timeout())
		if at, ok := ctx.Deadline(); ok && at.Before(end) || !l.enter() { // sent by itself, a take is not refunded at a deadline
			return l.apply(ctx, req)
		}
		defer l.leave()
	}
	within := newWithin(ctx, s.cfg.timeout()) // for all steps together
	defer within.end()
	return s.alone(within, ctx, req)
}

// alone sends one request by itself. If the caller's own context has ended, a failure does not count against the server.
func (s *Store) alone(ctx, caller context.Context, req *request) (r limits.Result, ok bool, err error) {
	trip, err := s.nodeOf(req.key).admit(ctx)
	if err != nil {
		return r, false, err
	}
	req.state.Store(sent)
	req.solo.batch[0] = req
	trip.exchange(ctx, caller, req.solo.batch[:])
	return req.r, req.ok, req.err
}

// A call is a command that is sent only once: a take whose reply was lost might have been counted.
type call struct {
	redis.Cmder

	args []any
	few  [4]any // has the args if they are no more
	keys count
}

// NoRetry returns true.
func (*call) NoRetry() bool { return true }

// A count is the number of keys of a command. It also notes whether the command was written.
type count struct {
	text    string
	written bool
}

// MarshalBinary returns the argument. The client calls it when it writes the command.
func (c *count) MarshalBinary() ([]byte, error) {
	c.written = true
	if c.text == "1" {
		return one, nil
	}
	return []byte(c.text), nil
}

// String returns the argument for logs of commands.
func (c *count) String() string { return c.text }

var one = []byte("1") //nolint:gochecknoglobals // a constant

// finish completes a call. Its reply is a list of integers or, of a decision, a string.
func (c *call) finish(ctx context.Context, args []any, list bool) {
	if list {
		c.Cmder = redis.NewIntSliceCmd(ctx, args...)
	} else {
		c.Cmder = redis.NewStringCmd(ctx, args...)
	}
	// Otherwise the client of a Cluster asks for it, by COMMAND.
	c.Cmder.(interface{ SetStepCount(n int8) }).SetStepCount(1) //nolint:forcetypeassert // both have it
}

// list returns a reply that is a list.
func (c *call) list() []int64 { return c.Cmder.(*redis.IntSliceCmd).Val() } //nolint:forcetypeassert // see finish

// newCall prepares a call of a script, by its text or its hash. The keys and the time follow.
func newCall(is *script, text bool, keys, more int) *call {
	c := &call{keys: count{text: number(int64(keys))}}
	c.args = c.few[:0]
	if 3+keys+more > len(c.few) {
		c.args = make([]any, 0, 3+keys+more)
	}
	if text {
		c.args = append(c.args, "eval", is.text, &c.keys)
	} else {
		c.args = append(c.args, "evalsha", is.arg, &c.keys)
	}
	return c
}

func isNoScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}
