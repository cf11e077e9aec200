package gate

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/roundtrip"
	"github.com/gresil/gresil/internal/validate"
)

var _ client.Plugin = (*Gate)(nil)

// A Gate admits the calls to one vendor: it spaces them, and holds them during pauses. It is a client.Plugin, and safe
// for concurrent use.
type Gate struct {
	life   instance.Instance[Config, *settings]
	waits  [classes]registry.Histogram
	events announce.Queue
	bound  atomic.Bool  // functions have sent over Transport
	mixed  atomic.Int64 // when to forget that a function has not, in Unix nanoseconds
	conns  roundtrip.Conns

	mu      sync.Mutex
	unlock  func()
	now     time.Time      // when mu was locked
	calls   map[*call]bool // accepted, not ended
	seq     uint64
	waiting [classes]int // calls in queues
	ready   queue        // calls to be checked
	scopes  map[gatestore.Key]*scope
	wakes   []*scope    // by wake
	timer   *time.Timer // nil until the first wait for a time
	probes  []*turn     // without an answer, the oldest first; not those of the Store

	flying, limit, most int       // places in use; places in force; Config.InFlight
	won                 int       // successes since limit has changed
	soon                bool      // limit grows fast
	clock, lowered      uint64    // counts admissions and holds; when limit was last halved as too many calls were in flight
	eased               time.Time // of that
	resumed             time.Time // the end of the last hold that has halved limit, or until when too many calls in flight do not again
	tokens
	*shared // nil without a Store

	buckets  map[gatestore.Key]bucket // by the key before
	refusals map[string]uint64        // by reason

	held, sweepAt int
	floor         map[string]time.Time // the usage of evicted keys, by limit

	drained chan struct{} // closed when no call is left; nil before Close
	pools   []*pool
	stats   Stats
}

func lifeCycle() *instance.Kind[Config, *settings] {
	return &instance.Kind[Config, *settings]{
		Kind: "gate", Type: "gate.Config", DefaultName: "default", Settings: settingsOf,
		Fields: func(c *Config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
		Fixed: func(check *validate.Check, old, cfg *Config) {
			cfg.Store = cmp.Or(cfg.Store, old.Store)
			check.That(cfg.Store == old.Store, "Store", cfg.Store, "cannot be changed")
		},
	}
}

// New makes a gate. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New(cfg Config) (*Gate, error) {
	cfg.Limits = slices.Clone(cfg.Limits)
	g := &Gate{
		calls: map[*call]bool{}, scopes: map[gatestore.Key]*scope{}, floor: map[string]time.Time{}, buckets: map[gatestore.Key]bucket{}, refusals: map[string]uint64{"limit": 0},
		sweepAt: 1024, clock: 1, limit: cfg.InFlight, most: cfg.InFlight,
	}
	g.unlock = g.release
	if err := g.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if cfg.Store != nil {
		table, err := cfg.Store.OpenGate(g.Name())
		if err != nil {
			return nil, err
		}
		g.shared = &shared{table: table, process: rand.Text(), kick: make(chan struct{}, 1)}
		g.ctx, g.cancel = context.WithCancel(context.Background())
	}
	source := registry.Source{Figures: g.figures, Hosts: g.hosts, Rows: g.rows, Control: g.control}
	if err := g.life.Register(g, g.SetConfig, source); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gate) settings() *settings { return g.life.Load().Settings }

// Phase is inside of retries, so that each of their attempts passes the gate, and outside of breakers and timeouts, which
// do not see the wait.
func (g *Gate) Phase() client.Phase { return client.Admission }

// String returns the type and the name, as in "gate.Gate(ads)".
func (g *Gate) String() string { return "gate.Gate(" + g.Name() + ")" }

// Name returns the name of the gate.
func (g *Gate) Name() string { return g.life.Name() }

// Config returns the Config of New, or of the last SetConfig.
func (g *Gate) Config() Config {
	cfg := g.life.Load().Config
	cfg.Limits = slices.Clone(cfg.Limits)
	return cfg
}

// SetConfig replaces the Config while the gate is in use. Holds stay. Slots that were given keep their times, and count under the new
// limits; calls that wait get other slots. A limit with a new name does not apply to calls that wait already. An empty Name and a nil
// Registry and Store stay as they are. Another Name, Registry or Store, and each error of Config.Validate, is a *core.ConfigError, and
// nothing changes.
func (g *Gate) SetConfig(cfg Config) error {
	cfg.Limits = slices.Clone(cfg.Limits)
	if err := g.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	defer g.lock()()
	set := g.settings()
	if g.limit == g.most || g.limit > set.InFlight {
		g.limit = set.InFlight
	}
	g.most = set.InFlight
	g.wakeAll()
	return nil
}

// A Hold is a pause of one key of a limit.
type Hold struct {
	Limit  string
	Key    string // it can be a secret
	Until  time.Time
	Reason string // Signal.Reason, or "quota" if nothing is left of a Quota; empty if another process has begun the hold
}

const (
	maxHolds = 1000        // that are listed
	grace    = time.Second // for which Close waits for the calls that it has canceled
)

// Holds returns the holds in force, at most 1,000, those that end last first; with a Store, those that this process knows. The hold of the
// whole vendor has neither Limit nor Key. That of a Quota.Bucket is listed under its name, and under each key that it has replaced.
func (g *Gate) Holds() []Hold {
	all := g.holds()
	slices.SortFunc(all, func(a, b Hold) int { return b.Until.Compare(a.Until) })
	return all[:min(len(all), maxHolds)]
}

func (g *Gate) holds() (all []Hold) {
	defer g.lock()()
	add := func(of gatestore.Key, s *scope) bool {
		until, ok := s.held(g.now)
		if ok {
			all = append(all, Hold{of.Limit, of.Key, until, s.hold.reason})
		}
		return ok
	}
	for of, s := range g.scopes {
		if g.bucket(of) == of {
			add(of, s)
		}
	}
	for of, to := range g.buckets {
		_ = add(of, g.scopes[to.Key]) || add(of, g.scopes[of])
	}
	return all
}

// Resume ends the hold of a key before its time; with an empty limit and key, it ends all holds. Answers to calls that were sent before do
// not begin them again. The next call is a probe. It comes after the slots that Reserve has given for the time after the hold. With a
// Store, another process knows it within 3 seconds if calls wait there, and otherwise with its next call; the error is that of the Store.
func (g *Gate) Resume(ctx context.Context, limit, key string) (err error) {
	unlock := g.lock()
	defer func() { unlock() }()
	var keys []gatestore.Key // nil: all
	if limit != "" || key != "" {
		of := gatestore.Key{Limit: limit, Key: key}
		keys = []gatestore.Key{of, g.bucket(of)}
	}
	of := func(s *scope) bool { return keys == nil || slices.Contains(keys, s.Key) }
	if g.shared != nil { // first, or a call that waits learns of the hold again
		g.reports = slices.DeleteFunc(g.reports, func(r report) bool { return of(r.scope) })
		g.untried = len(g.reports) > 0
		unlock()
		err = g.table.Resume(ctx, keys)
		unlock = g.lock()
	}
	for _, s := range g.scopes {
		if _, ok := s.held(g.now); ok && of(s) {
			g.resume(s)
		}
	}
	return err
}

// resume ends a hold before its time.
func (g *Gate) resume(s *scope) {
	s.hold.until, s.hold.end = g.now, g.now.Add(probeTime)
	g.resumed = g.now
	g.wake(s, time.Time{})
}

// Close accepts no more calls: they get [ErrClosed]. It waits until the accepted ones are done. If ctx ends before
// that, it cancels their contexts, and returns the cause of ctx. Then it closes the connections of its pools, and frees
// its places in the Store. Holds stay in the Store.
func (g *Gate) Close(ctx context.Context) (err error) {
	_ = g.life.Close() // always nil
	unlock := g.lock()
	if g.drained == nil {
		if g.drained = make(chan struct{}); len(g.calls) == 0 {
			close(g.drained)
		}
	}
	pools := g.pools
	unlock()
	select {
	case <-g.drained:
	case <-ctx.Done():
		g.mu.Lock()
		for c := range g.calls {
			c.cancel(errCut)
			err = context.Cause(ctx)
		}
		g.mu.Unlock()
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-g.drained:
		case <-late.C:
		}
	}
	for _, p := range pools {
		p.expire(nil)
	}
	g.leave()
	return err
}
