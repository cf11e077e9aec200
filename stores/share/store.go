package share

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
	"github.com/gresil/gresil/internal/stripe"
)

const (
	chargeEvery = 2 * time.Second  // the interval at which debts are charged
	chargeTime  = 10 * time.Second // limits the charge of one key, if the store has no shorter timeout
	closeTime   = time.Second      // limits the charges by Close
)

// A sharer is a [ratelimit.Store] around another one. It is safe for concurrent use.
type sharer struct {
	remove func() // from the registry
	inner  ratelimit.Store
	cfg    Config
	rank   int64 // of this process, if the store does not count instances
	local  stripe.Counter
	unsent atomic.Uint64

	mu       sync.Mutex
	tables   map[string]*table
	wg       sync.WaitGroup
	ctx      context.Context //nolint:containedctx // of the goroutine; it ends under the lock
	stop     context.CancelFunc
	wake     chan struct{} // receives when the store is available
	charging atomic.Bool   // whether the goroutine that charges debts runs
	owing    atomic.Int64  // the sum of all debts, in permits
}

// New wraps a store. It does not use the store yet, and starts no goroutine. The Close method of the result charges the
// store once more, for up to a second, and closes it. The error is about the Config, a nil store, or a name in use.
func New(store ratelimit.Store, cfg Config) (ratelimit.Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if identity.Missing(store) {
		return nil, &core.ConfigError{Field: "share store", Value: nil, Reason: "must not be nil"}
	}
	s := &sharer{inner: store, cfg: cfg, tables: map[string]*table{}, wake: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.cfg.Instances = max(1, cfg.Instances)
	s.rank = rand.Int64N(int64(s.cfg.Instances)) //nolint:gosec // no secret
	var err error
	if s.remove, err = limitstore.Register(cfg.Registry, "share.Config.Name", cfg.Name, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Open opens a table of the wrapped store. For the same name, it returns the same table.
func (s *sharer) Open(name string) (limits.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, limits.ErrClosed
	}
	if t := s.tables[name]; t != nil {
		return t, nil
	}
	inner, err := s.inner.Open(name)
	if err != nil {
		return nil, err
	}
	t := &table{inner: inner, store: s, counts: limits.Counting(inner)}
	t.Plans = limits.NewPlans(limits.Clock{}, t.prepare)
	s.tables[name] = t
	return t, nil
}

// Close ends s and closes the wrapped store. Before that, it removes s from its registry, and charges the debts once
// more, for up to a second.
func (s *sharer) Close() error {
	s.mu.Lock()
	closed := s.ctx.Err() != nil
	s.stop()
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.remove()
	s.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	s.charge(ctx)
	return s.inner.Close()
}

// begin runs f in a goroutine that Close waits for. After Close it returns false instead.
func (s *sharer) begin(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.wg.Go(f)
	return true
}

// Stats returns the counters of the wrapped store, with Local, and with Instances if that store does not count them.
func (s *sharer) Stats() (stats limitstore.Stats) {
	local := s.local.Load() // first, so that it is at most Timeouts + Failed + Unsent
	stats = limitstore.Of(s.inner)
	stats.Unsent += s.unsent.Load()
	if stats.Local += local; stats.Instances == 0 && s.cfg.Instances > 1 {
		stats.Instances = s.cfg.Instances
	}
	return stats
}

// indebted starts the goroutine that charges debts, unless it runs. It ends when there are none left.
func (s *sharer) indebted() {
	if !s.charging.Load() && s.charging.CompareAndSwap(false, true) && !s.begin(s.run) {
		s.charging.Store(false)
	}
}

// available wakes the charging of debts: the store has just decided.
func (s *sharer) available() {
	if s.owing.Load() != 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *sharer) run() {
	due := time.NewTicker(chargeEvery)
	defer due.Stop()
	wake := s.wake
	for {
		select {
		case <-due.C:
			wake = s.wake
		case <-wake:
		case <-s.ctx.Done():
			return
		}
		if !s.charge(s.ctx) {
			wake = nil // a failed charge is retried at the next tick, not at the next decision
		}
		if s.charging.Store(false); s.owing.Load() == 0 || !s.charging.CompareAndSwap(false, true) {
			return
		}
	}
}

// charge charges the debts of all tables, and reports whether all could be charged.
func (s *sharer) charge(ctx context.Context) bool {
	s.mu.Lock()
	var shares []*local
	for _, t := range s.tables {
		if l := t.local.Load(); l != nil {
			shares = append(shares, l)
		}
	}
	s.mu.Unlock()
	all := true
	for _, l := range shares {
		all = l.chargeAll(ctx) && all
	}
	return all
}
