package redisstore

import (
	"context"
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
)

// A Store is a [ratelimit.Store] in Redis. It is used by many goroutines at once.
type Store struct {
	remove func() // from the registry
	cfg    Config
	client redis.UniversalClient
	single bool  // all keys are on one server
	alien  bool  // the client is not one of go-redis, and might ignore deadlines
	first  *node // the only one, except in a Cluster
	seed   maphash.Seed
	wg     sync.WaitGroup // of lanes at work
	closed atomic.Bool
	ending sync.RWMutex // read-locked by operations that must not begin, or must complete, when Close has been called

	counters counters
	sharing  *sharer // of cooldowns

	inspected atomic.Pointer[inspection]
	mu        sync.Mutex
	nodes     map[string]*node  // of a Cluster, by their addresses
	tables    map[string]*table // by their names
	beating   bool              // a goroutine sends beats
	newcomers []*table          // for the goroutine, which have no beat yet
	wake      chan struct{}     // there are newcomers
	every     time.Duration     // between beats
	life      time.Duration     // of an instance without a beat
	ctx       context.Context   //nolint:containedctx // of the goroutine that sends beats
	stop      context.CancelFunc
	making    context.Context //nolint:containedctx // of the goroutines that make connections
	stopMakes context.CancelFunc

	clock func() time.Time // of tests; if nil, the time is that of the server
}

// New makes a store over a client, which the caller owns: the store does not close it. It sends
// nothing yet; [Store.Check] reports whether the server can be used. It returns the errors of
// [Config.Validate], or of a Registry that has the name already.
//
// Without ContextTimeoutEnabled in its options, a client ignores timeouts. So a
// [redis.ClusterClient] or a [redis.Ring] needs it. A [redis.Client] without it is used through a
// copy that shares its connections, but has none of its hooks. For a client of another type, for
// example a wrapper, the store enforces the timeout itself: a command that has not ended by then
// continues in a goroutine, for up to [Config].DialTimeout, and can still take permits.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, &core.ConfigError{Field: "redisstore client", Value: nil, Reason: "must not be nil"}
	}
	s := &Store{cfg: cfg, client: client, seed: maphash.MakeSeed(), every: beatEvery, life: beatLife, wake: make(chan struct{}, 1), nodes: map[string]*node{}, tables: map[string]*table{}}
	s.sharing = newSharer(s)
	s.first = s.newNode()
	timely := true
	switch c := client.(type) {
	case *redis.Client:
		s.single = true
		if !c.Options().ContextTimeoutEnabled {
			c = c.WithTimeout(max(cfg.timeout(), cfg.dialTimeout()))
			c.Options().ContextTimeoutEnabled = true
			s.client = c
		}
		s.first.of(c)
	case *redis.ClusterClient:
		timely = c.Options().ContextTimeoutEnabled
	case *redis.Ring:
		timely = c.Options().ContextTimeoutEnabled
	default:
		s.alien = true
	}
	if !timely {
		return nil, &core.ConfigError{Field: "redis.Options.ContextTimeoutEnabled", Value: false, Reason: "must be true, otherwise a decision could take longer than Timeout"}
	}
	s.making, s.stopMakes = context.WithCancel(context.Background())
	s.ctx, s.stop = context.WithCancel(s.making)
	var err error
	if s.remove, err = limitstore.Register(cfg.Registry, "redisstore.Config.Name", cfg.name(), s); err != nil {
		return nil, err
	}
	return s, nil
}

// Open returns the table of that name; the same name is the same table. It sends nothing.
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

// Close ends the store: later operations fail, and so do operations that are not sent yet. It
// waits for operations that were sent. It ends this instance in the sets of instances that share
// limits, and removes the store from its registry. All this takes a few Timeouts at most. The
// state in the server and the client stay as they are.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
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
	s.stopMakes() // the last beats might have needed a connection
	return nil
}

// time is the argument for the time.
func (s *Store) time() any {
	if s.clock == nil {
		return ""
	}
	return number(s.clock().UnixMicro() - epoch)
}

// apply has a request decided, until ctx ends; ok is false if the script could not decide it. If
// the caller's own context has ended, the outcome does not count for the server.
func (s *Store) apply(ctx, caller context.Context, req *request) (r limits.Result, ok bool, err error) {
	if s.cfg.Mode == Coalesced {
		return s.laneOf(req.key).apply(ctx, req)
	}
	s.ending.RLock()
	defer s.ending.RUnlock()
	if s.closed.Load() {
		return r, false, limits.ErrClosed
	}
	reply, err := s.exchange(ctx, caller, req)
	if err != nil {
		return r, false, err
	}
	r, ok = req.result(reply, 0)
	return r, ok, nil
}

// exchange sends one request by itself.
func (s *Store) exchange(ctx, caller context.Context, req *request) ([]int64, error) {
	to := s.nodeOf(req.key)
	permit, err := s.admit(ctx, to)
	if err != nil {
		return nil, err
	}
	outcome := core.Ignored
	defer func() { to.ended(permit, outcome) }()
	begun := time.Now()
	if !to.take(begun) {
		result, err := to.connect(ctx)
		if err == nil && to.late(ctx) {
			to.release(nil)
			<-ctx.Done() // another request has the connection, and the time for it
			result, err = core.Ignored, unsent(explain(to.none(ctx.Err())))
		}
		if err != nil {
			if !hasEnded(caller) {
				outcome = result
			}
			return nil, err
		}
		if s.routes(to, req.key) {
			to.release(nil)
			outcome = core.Success
			return s.exchange(ctx, caller, req) // now it is known which servers there are
		}
		begun = time.Now()
	}
	reply, err := s.runAt(ctx, to, []*request{req})
	took := time.Since(begun)
	if req.decode != nil { // a beat is no operation
		s.counters.trip(1, took)
	}
	err = to.named(err)
	to.release(err)
	if outcome = outcomeOf(err); hasEnded(caller) {
		outcome = core.Ignored
	}
	if err != nil {
		return nil, explain(err)
	}
	to.observe(took)
	return reply, nil
}

// routes reports whether the client of a Cluster knows another node for a key by now than the one
// that stands for all.
func (s *Store) routes(to *node, key string) bool {
	return !s.single && to == s.first && s.nodeOf(key) != to
}

// admit reports whether a request may be sent to a node. It sends nothing, and does not wait.
func (s *Store) admit(ctx context.Context, to *node) (breaker.Permit, error) {
	if !s.single {
		to.asked.Store(int64(time.Since(to.base)))
	}
	permit, err := to.guard.Acquire(ctx)
	if err != nil {
		return permit, ErrUnavailable
	}
	if err := s.usable(); err != nil {
		permit.Done(core.Ignored)
		return permit, err
	}
	return permit, nil
}

// runAt runs the script of requests at a node.
func (s *Store) runAt(ctx context.Context, to *node, reqs []*request) ([]int64, error) {
	if s.alien {
		kept := slices.Clone(reqs) // or these would be allocated in every case
		return inTime(ctx, s, func(ctx context.Context) ([]int64, error) { return s.process(ctx, to, kept) })
	}
	return s.process(ctx, to, reqs)
}

// process sends requests of one script, and the text of the script where the server does not know it.
func (s *Store) process(ctx context.Context, to *node, reqs []*request) (reply []int64, err error) {
	err = to.send(ctx, func() error {
		reply, err = s.processOnce(ctx, to, reqs)
		return err
	})
	return reply, err
}

func (s *Store) processOnce(ctx context.Context, to *node, reqs []*request) ([]int64, error) {
	known := to.knows(reqs[0].script)
	cmd := s.command(ctx, !known, reqs)
	err := s.client.Process(ctx, cmd)
	if known && isNoScript(err) {
		to.scripts.Clear() // the server has lost all scripts
		cmd, known = s.command(ctx, true, reqs), false
		err = s.client.Process(ctx, cmd)
	}
	if err != nil {
		return nil, err
	}
	if !known {
		to.learn(reqs[0].script)
	}
	return cmd.Val(), nil
}

// inTime calls f. If the client might ignore deadlines, it does so in a goroutine, and returns at the
// end of ctx at the latest, while f continues.
func inTime[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (result T, err error) {
	if !s.alien {
		return f(ctx)
	}
	type ending struct {
		result T
		err    error
	}
	ended := make(chan ending, 1)
	go func() {
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.dialTimeout())
		defer cancel()
		result, err := f(long)
		ended <- ending{result, err}
	}()
	select {
	case e := <-ended:
		return e.result, e.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// A call is a command that is sent once: a take whose reply was lost might have been counted.
type call struct{ *redis.IntSliceCmd }

// NoRetry is true.
func (call) NoRetry() bool { return true }

// command is the one for requests of one script.
func (s *Store) command(ctx context.Context, text bool, reqs []*request) call {
	first := reqs[0]
	args := make([]any, 0, 4+len(reqs)*(1+len(first.args)))
	if text {
		args = append(args, "eval", first.script.text)
	} else {
		args = append(args, "evalsha", first.script.arg)
	}
	args = append(args, len(reqs))
	for _, req := range reqs {
		args = append(args, req.key)
	}
	args = append(args, s.time())
	for _, req := range reqs {
		args = append(args, req.args...)
	}
	cmd := redis.NewIntSliceCmd(ctx, args...)
	cmd.SetStepCount(1) // or the client of a Cluster asks the server for it, by COMMAND
	return call{cmd}
}

// result reads the reply to the request at a place of those sent together.
func (req *request) result(reply []int64, place int) (r limits.Result, ok bool) {
	if req.width == 0 {
		return req.decode(req, 0, reply)
	}
	from := 1 + place*req.width
	if len(reply) < from+req.width {
		return r, false
	}
	return req.decode(req, reply[0], reply[from:from+req.width])
}

func isNoScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}
