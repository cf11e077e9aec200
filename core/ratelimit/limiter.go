package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/validate"
)

// A Limiter limits how many permits each key takes. [Limiter.Take] decides at once; [Limiter.Wait]
// waits for the permits.
type Limiter struct {
	*shared
	current atomic.Pointer[setting]
	used    atomic.Bool // current applied to a key
}

// shared is the state that a limiter shares with the limiters that WithLimit derives from it.
type shared struct {
	life  instance.Instance[Config, struct{}, Hooks]
	root  *Limiter
	table driver.Table
	own   *Memory // the store, if the limiter made it

	memory *table                       // the table, if it is in memory
	local  atomic.Pointer[driver.Table] // decides while the store cannot
	done   chan struct{}
	once   sync.Once

	unclaim func() // releases the claim to the default name

	views     sync.Map // Limit to *Limiter
	overrides overrides

	allowed, rejected stripe.Counter
	canceled          atomic.Uint64
	waiting           atomic.Int64

	locals, undecided   atomic.Uint64 // operations that the store failed to decide
	failures, recovered atomic.Uint64 // of the store; equal unless it is failing
}

func lifeCycle() *instance.Kind[Config, struct{}, Hooks] {
	return &instance.Kind[Config, struct{}, Hooks]{
		Kind: "ratelimit", Type: "ratelimit.Config", DefaultName: DefaultName,
		Fields: func(c *Config) instance.Fields[Hooks] {
			return instance.Fields[Hooks]{Name: &c.Name, Registry: &c.Registry, Hooks: &c.Hooks}
		},
		Fixed: func(check *validate.Check, old, cfg *Config) {
			check.That((cfg.Store == nil || identity.Comparable(cfg.Store)) && cfg.Store == old.Store, "Store", "another one", "must stay as it is")
			check.That(cfg.MaxKeys == old.MaxKeys, "MaxKeys", cfg.MaxKeys, "must stay as it is")
		},
	}
}

// New makes a limiter, opens its table, and registers it. If cfg has a Store but no Name, a
// second limiter of this kind in that Store is a [*core.ConfigError].
func New(cfg Config) (*Limiter, error) {
	s := &shared{done: make(chan struct{}), unclaim: func() {}}
	if err := s.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if err := s.open(&cfg); err != nil {
		return nil, err
	}
	if err := s.claim(&cfg); err != nil {
		return nil, err
	}
	err := s.adopt(&cfg)
	if err == nil {
		s.root, err = s.view(cfg.Limit)
	}
	if err == nil {
		err = s.life.Register(s.root)
	}
	if err != nil {
		s.unclaim()
		return nil, err
	}
	return s.root, nil
}

// open opens the table, in a store of the limiter if cfg has none.
func (s *shared) open(cfg *Config) (err error) {
	store := cfg.Store
	if store == nil {
		s.own = newMemory(cfg.MaxKeys)
		store = s.own
	}
	if memory, ok := store.(*Memory); ok {
		s.memory, err = memory.open(s.Name())
		s.table = s.memory
	} else {
		s.table, err = store.Open(s.Name())
	}
	if err != nil {
		return &StoreError{Name: s.Name(), Err: err}
	}
	return nil
}

// adopt validates what cfg needs of the table.
func (s *shared) adopt(cfg *Config) error {
	return errors.Join(cfg.validateFor(s.table), s.localize(cfg))
}

// localize opens a table that decides while the store is unavailable, if cfg requires it.
func (s *shared) localize(cfg *Config) error {
	if cfg.OnStoreError != Local || s.memory != nil || s.local.Load() != nil {
		return nil
	}
	t, ok := s.table.(driver.LocalTable)
	if !ok {
		return &core.ConfigError{Field: "ratelimit.Config.OnStoreError", Value: Local, Reason: "must be Allow or Deny with this Store: wrap it in share.New of stores/share"}
	}
	local := t.Local()
	s.local.Store(&local)
	return nil
}

// view is a limiter with a limit of its own.
func (s *shared) view(limit Limit) (*Limiter, error) {
	set, err := s.setting(limit)
	if err != nil {
		return nil, err
	}
	l := &Limiter{shared: s}
	l.current.Store(set)
	return l, nil
}

// Name is the name of the limiter.
func (s *shared) Name() string { return s.life.Name() }

func (s *shared) config() *Config { return &s.life.Load().Config }

// Config returns the configuration as given, with the current limit of this limiter.
func (l *Limiter) Config() Config {
	c := *l.config()
	if now := l.Limit(); now != c.Limit.resolved() {
		c.Limit = now
	}
	return c
}

// WithLimit returns a limiter that applies another limit to the same keys: for tiers, or for the
// limit of one call. It applies at once, and SetLimit does not change it. Usage under any limit
// counts under all of them: see [Limiter.SetLimit]. A key comes under the limit with its first
// operation that takes or is refused.
//
// The same limit returns the same limiter, without allocating. Use few different limits: each is
// kept, and a table in memory has at most 65,535, after which a new one is a [*StoreError].
func (l *Limiter) WithLimit(limit Limit) (*Limiter, error) {
	if v, ok := l.views.Load(limit); ok {
		return v.(*Limiter), nil // the map holds only *Limiter
	}
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	view, err := l.view(limit)
	if err != nil {
		return nil, err
	}
	v, _ := l.views.LoadOrStore(limit, view)
	return v.(*Limiter), nil // the map holds only *Limiter
}

// Take takes n permits of a key now, or none; Result.Allowed reports which. A refusal changes
// nothing. With n = 0 it takes nothing.
//
// An error is never a refusal: n is negative, the limiter is closed, or the store failed and
// OnStoreError is not [Allow]. Whether ctx is done matters only to a store that has to wait; the
// error is then the cause of ctx.
func (l *Limiter) Take(ctx context.Context, key string, n int64) (r Result, err error) {
	err = l.takeInto(ctx, key, n, &r)
	return r, err
}

// takeInto is Take, which is inlined: copying a Result is slow (BenchmarkTake).
func (l *Limiter) takeInto(ctx context.Context, key string, n int64, r *Result) (err error) {
	set := l.current.Load()
	if !l.used.Load() {
		l.used.Store(true)
	}
	if l.overrides.n.Load() > 0 {
		set = cmp.Or(l.overrides.get(key), set)
	}
	if set.one != nil && l.memory.takeOne(clock, key, set.one, n, r) {
		if h := l.life.Hooks(); l.own == nil || h.Allowed != nil || h.Rejected != nil {
			l.took(ctx, key, n, r)
		}
		return nil
	}
	*r, err = l.take(ctx, key, driver.Op{Kind: driver.Take, Cost: n})
	return err
}

// TakeAtMost takes the available permits of a key, up to n.
func (l *Limiter) TakeAtMost(ctx context.Context, key string, n int64) (Result, error) {
	return l.take(ctx, key, driver.Op{Kind: driver.TakeAtMost, Cost: n})
}

// Peek returns the state of a key. It changes nothing and counts no decision.
func (l *Limiter) Peek(ctx context.Context, key string) (Result, error) {
	return l.apply(ctx, key, driver.Op{})
}

// Drain takes all permits that a key has now, for example after an upstream has throttled a call.
// Result.Granted is their number.
func (l *Limiter) Drain(ctx context.Context, key string) (Result, error) {
	r, err := l.apply(ctx, key, driver.Op{Kind: driver.Drain})
	r.Allowed, r.RetryAfter = err == nil, 0
	return r, err
}

// Reserve grants n permits of a key for the earliest possible moment, if that is within maxWait,
// and returns at once: use the permits after Result.Wait. If they are not used, Refund gives them
// back. No later call takes permits before them: a later take is refused, or reserved after them.
// A negative maxWait is no limit; a FixedWindow can be reserved three windows ahead, a sliding
// limit four periods. While other callers wait for the key (see [Limiter.Wait]) without NewestFirst,
// Reserve is refused: the state of the key after the queue is not known yet.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64, maxWait time.Duration) (Result, error) {
	if maxWait < 0 {
		maxWait = math.MaxInt64
	}
	return l.take(ctx, key, driver.Op{Kind: driver.Reserve, Cost: n, MaxWait: maxWait})
}

// check decides as Take does, and takes nothing.
func (l *Limiter) check(ctx context.Context, key string, n int64) (Result, error) {
	return l.apply(ctx, key, driver.Op{Kind: driver.Check, Cost: n})
}

// Refund gives back the permits of a take, which its Result names. Call it at most once
// for a take, and not after a Reset. Permits that came back with time are not given back
// twice: after the window of the take it does nothing, nor after SetLimit to another kind of
// limit. While others hold places that lie ahead (see [Limiter.Reserve]), only the permits
// behind all of them are given back. A window of which all is given back still ends when it
// would have.
//
// The Result is how the key then stands under the limit in force: that of its Override, or
// that of the limiter that took, which may have changed since.
//
// It runs even if ctx is done: a store that has to wait has a second for it.
func (l *Limiter) Refund(ctx context.Context, key string, take Result) (Result, error) {
	if take.Granted <= 0 {
		return l.Peek(ctx, key)
	}
	if l.own == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
		defer cancel()
	}
	return l.applyUnder(ctx, l.settingOfTake(key, take.Plan), key, driver.Op{Kind: driver.Refund, Cost: take.Granted, Receipt: take.Receipt})
}

const refundTimeout = time.Second

// Reset forgets the usage of a key, under every limit.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.apply(ctx, key, driver.Op{Kind: driver.Reset})
	return err
}

func (l *Limiter) take(ctx context.Context, key string, op driver.Op) (Result, error) {
	r, err := l.apply(ctx, key, op)
	if err == nil {
		l.decided(ctx, key, op.Cost, &r, 0)
	}
	return r, err
}

// decided counts a decision and calls the hooks, unless the cost was 0 or the store did not
// decide.
func (l *Limiter) decided(ctx context.Context, key string, cost int64, r *Result, waited time.Duration) {
	if cost == 0 || r.Limit == 0 {
		return
	}
	l.count(r)
	l.announce(ctx, key, cost, r, waited)
}

// took is decided after takeOne, which has counted the decision itself.
func (l *Limiter) took(ctx context.Context, key string, cost int64, r *Result) {
	if l.own == nil { // takeOne counts for all limiters of a shared table
		l.count(r)
	}
	l.announce(ctx, key, cost, r, 0)
}

func (l *Limiter) count(r *Result) {
	if r.Allowed {
		l.allowed.Inc()
	} else {
		l.rejected.Inc()
	}
}

func (l *Limiter) announce(ctx context.Context, key string, cost int64, r *Result, waited time.Duration) {
	switch h := l.life.Hooks(); {
	case r.Allowed && h.Allowed != nil:
		l.tell(ctx, h.Allowed, Info{Key: key, Cost: cost, Result: *r, Waited: waited})
	case !r.Allowed && h.Rejected != nil:
		l.tell(ctx, h.Rejected, Info{Key: key, Cost: cost, Result: *r})
	}
}

func (l *Limiter) tell(ctx context.Context, f func(context.Context, Info), info Info) {
	defer l.life.Panics.Recover()
	info.Name, info.Key = l.Name(), strings.Clone(info.Key)
	f(ctx, info)
}

func (l *Limiter) apply(ctx context.Context, key string, op driver.Op) (Result, error) {
	return l.applyUnder(ctx, l.settingOf(key), key, op)
}

func (l *Limiter) applyUnder(ctx context.Context, set *setting, key string, op driver.Op) (Result, error) {
	op.Change = l.changeOf(set)
	failures := l.failures.Load()
	r, err := l.table.Apply(ctx, key, set.plan, op)
	if err != nil {
		return l.failed(ctx, key, set.plan, op, err)
	}
	if r.Allowed && failures != l.recovered.Load() {
		l.storeDecided(ctx, key, op.Cost, failures)
	}
	return r, nil
}

// storeDecided calls StoreRecovered after an operation that the store allowed, unless
// the store has failed since the operation began. A refusal is no evidence: a store can
// return one from a cache.
func (l *Limiter) storeDecided(ctx context.Context, key string, cost int64, failures uint64) {
	recovered := l.recovered.Load()
	if recovered >= failures || l.failures.Load() != failures || !l.recovered.CompareAndSwap(recovered, failures) {
		return
	}
	if h := l.life.Hooks(); h.StoreRecovered != nil {
		l.tell(ctx, h.StoreRecovered, Info{Key: key, Cost: cost})
	}
}

// failed applies OnStoreError to an error of the store. Errors that the caller caused
// are returned unchanged: its context ended, its cost is negative, or it closed the
// limiter.
func (l *Limiter) failed(ctx context.Context, key string, plan driver.ID, op driver.Op, err error) (Result, error) {
	switch {
	case errors.Is(err, ErrClosed) && l.closed(), errors.Is(err, core.ErrConfig):
		return Result{}, err
	case op.Cost < 0:
		return Result{}, limits.CostError(op.Cost)
	case ctx.Err() != nil && op.Kind != driver.Refund:
		return Result{}, context.Cause(ctx)
	}
	l.failures.Add(1)
	err = &StoreError{Name: l.Name(), Err: err}
	if h := l.life.Hooks(); h.StoreFailed != nil {
		l.tell(ctx, h.StoreFailed, Info{Key: key, Cost: op.Cost, Err: err})
	}
	policy := l.config().OnStoreError
	if local := l.local.Load(); policy == Local && local != nil {
		if r, failed := (*local).Apply(ctx, key, plan, op); failed == nil {
			l.locals.Add(1)
			return r, nil
		}
	}
	l.undecided.Add(1)
	if policy != Allow || op.Cost == 0 || op.Kind == driver.Refund {
		return Result{}, err
	}
	if c := l.Limit().Capacity(); op.Cost > c && op.Kind != driver.TakeAtMost {
		return Result{Limit: c, RetryAfter: Never}, nil // a cost above the capacity needs no store
	}
	return Result{Allowed: true}, nil
}

func (l *Limiter) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Close removes the limiter from the registry and ends every wait with [ErrClosed]. If the limiter
// made its store, later calls return ErrClosed too. It can be called twice, and also closes the
// limiters of WithLimit.
func (l *Limiter) Close() error {
	var err error
	l.once.Do(func() {
		close(l.done)
		l.unclaim()
		_ = l.life.Close() // always nil
		if l.own != nil {
			err = l.own.Close()
		}
	})
	return err
}
