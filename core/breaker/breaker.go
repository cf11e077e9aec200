package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/hook"
)

const kind = "breaker"

// A Breaker lets calls pass, or not, by how the ones before ended. Its methods may
// be used by several goroutines at once.
type Breaker struct {
	*shared
	key   string
	group bool // it is in one

	// What Acquire reads. They change with the state, under mu; refusal first.
	word    atomic.Uint64             // generation<<wordBits, aging, timed, calm, state
	refusal atomic.Pointer[OpenError] // what a call gets that is not admitted
	used    atomic.Bool               // since the Group looked for one to drop

	_  [64]byte // mu changes with most calls, what is above with few
	mu sync.Mutex
	//
	rules      *rules
	state      State
	byHand     bool          // SetState was called
	generation uint64        // one more for each state entered
	since      time.Duration // when it was entered
	until      time.Duration // Open: when it is over
	openFor    time.Duration // how long it was opened the last time since it was closed
	answered   time.Duration // what OpenDelay said then, which may be less
	opened     int           // how many times it was opened
	opening    uint64        // the generation in which OpenDelay is being asked
	asking     int           // how many ask OpenDelay now
	least      time.Duration // how long to open then at least
	ring       ring
	buckets    *buckets // in place of the ring
	trials     trials
	exceeded   exceeded // MetricsOnly: what was told
	changes    announce.Queue[change]
	queued     bool // something was added to changes under this lock

	counters counters
}

// shared is what the breakers of a group have in common.
type shared struct {
	name    string
	base    time.Time // all times are counted from here
	hooks   hook.Set[Hooks]
	panics  hook.Panics
	current atomic.Pointer[rules] // which each Breaker adopts

	mu sync.Mutex
}

// rules are a Config as it is used.
type rules struct {
	cfg          Config
	rate         float64
	slowCall     time.Duration // 0: no call is slow
	slowRate     float64       // then beyond reach
	minCalls     int
	trialCount   int
	trialTimeout time.Duration
	openDelay    backoff.Strategy
}

func newRules(cfg Config) *rules {
	return &rules{
		cfg: cfg, rate: cfg.failureRate(), slowCall: cfg.SlowCall, slowRate: cfg.slowRate(), minCalls: cfg.minCalls(),
		openDelay: cfg.openDelay(), trialCount: cfg.trials(), trialTimeout: cfg.trialTimeout(),
	}
}

func newShared(cfg Config) (*shared, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &shared{name: cfg.name(), base: time.Now()}
	s.current.Store(newRules(cfg))
	s.hooks.Own(cfg.Hooks)
	return s, nil
}

func (s *shared) now() time.Duration { return time.Since(s.base) }

// delay asks how long to stay open. It runs code of the user, so no lock is held.
func (s *shared) delay(of backoff.Strategy, n int, prev time.Duration) time.Duration {
	d := DefaultOpenTime // stands when OpenDelay panics
	func() {
		defer s.panics.Recover()
		d = of.Delay(n, prev)
	}()
	return max(0, d)
}

// initialDelay is how long a new breaker is open. As delay, it is not for under a
// lock.
func (s *shared) initialDelay(r *rules) time.Duration {
	if r.cfg.Initial == Open {
		return s.delay(r.openDelay, 1, 0)
	}
	return 0
}

// New makes a breaker. It returns what [Config.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func New(cfg Config) (*Breaker, error) {
	s, err := newShared(cfg)
	if err != nil {
		return nil, err
	}
	r := s.current.Load()
	b := newBreaker(s, r, "", s.initialDelay(r))
	if cfg.Registry != nil {
		if err := cfg.Registry.Add(kind, b.Name(), b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func newBreaker(s *shared, r *rules, key string, openFor time.Duration) *Breaker {
	b := &Breaker{shared: s, rules: r, key: key, trials: trials{slots: make([]slot, r.trialCount)}}
	if r.cfg.WindowTime > 0 {
		b.buckets = newBuckets(r.cfg.WindowTime)
	} else {
		b.ring = newRing(r.cfg.window(), r.slowCall > 0)
	}
	now := s.now()
	if r.cfg.Initial == Open {
		b.opened, b.openFor, b.answered = 1, openFor, openFor
	}
	b.enter(r.cfg.Initial, now)
	return b
}

// Name returns the name of the breaker; in a [Group], that of the group.
func (b *Breaker) Name() string { return b.name }

// Key returns the key of the breaker in its [Group]. It is empty for one that is
// in none.
func (b *Breaker) Key() string { return b.key }

// Config returns the Config that the breaker has, as it was given.
func (b *Breaker) Config() Config { return b.current.Load().cfg }

// Close takes the breaker out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (b *Breaker) Close() error {
	if r := b.Config().Registry; r != nil {
		r.Remove(kind, b.Name(), b)
	}
	return nil
}

// Observe adds hooks to those of the Config, until cancel is called; events that
// happen at that moment may still be told. The breakers of a [Group] have their
// hooks together: they are told of all of them, and info.Key tells which.
func (b *Breaker) Observe(h Hooks) (cancel func()) { return b.hooks.Add(h) }
