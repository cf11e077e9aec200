package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
)

// A Breaker admits or rejects calls. It is safe for concurrent use. It is a core.Mechanism.
type Breaker struct {
	*shared
	key string

	// These are read without the lock. They change under mu, and word is written last.
	word    atomic.Uint64             // generation<<wordBits, timed, calm, state
	refusal atomic.Pointer[OpenError] // the error of a rejected call
	until   atomic.Int64              // the end of calm, in ns since base: with the present tenth of a WindowTime, or forever

	_  [64]byte // mu changes with most calls, the fields above with few
	mu sync.Mutex
	//
	rules      *Config // with defaults, see rulesOf
	state      State
	generation uint64        // increases with each state that is entered
	since      time.Duration // when the state was entered
	openFor    time.Duration // duration of the last opening; 0 after the breaker closed
	delay      time.Duration // the last result of OpenDelay, which may be less
	opened     int           // how often it opened since it was last closed
	row        int           // failures in a row, or less than 0: successes in a row
	ring       ring
	buckets    *buckets      // used instead of ring if there is a WindowTime
	window     *counts       // the counts of ring or buckets
	trials     counts        // HalfOpen: the trials that have ended
	admitted   int           // HalfOpen: the trials that were admitted, without ignored ones
	latest     time.Duration // HalfOpen: when the last trial was admitted
	changes    announce.Queue
	queued     bool // changes were added under this lock

	total             counts
	calm, rejected    stripe.Counter // calm: successes that are not in total
	ignored, openings atomic.Uint64
}

// shared is common to the breakers of a group.
type shared struct {
	keys

	life       instance.Instance[Config, *Config]
	group      bool
	base       time.Time   // times are durations since then
	overridden atomic.Bool // Override was called
	measured   atomic.Bool // durations of calls are measured
	durations  [core.Failure + 1]registry.Histogram
}

// keys has the name under which it is embedded.
type keys = registry.Keys

func newShared(cfg Config, group bool) (*shared, error) {
	s := &shared{base: time.Now(), group: group}
	return s, s.life.Init(&instance.Kind[Config, *Config]{
		Kind: "breaker", Type: "breaker.Config", DefaultName: "default",
		Fields:   func(c *Config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
		Settings: rulesOf,
	}, cfg)
}

// New makes a breaker. It returns the errors of Config.Validate, or an error if the name is in use in the registry.
func New(cfg Config) (*Breaker, error) {
	s, err := newShared(cfg, false)
	if err != nil {
		return nil, err
	}
	b := newBreaker(s, "")
	if err := s.life.Register(b, b.SetConfig, b.source()); err != nil {
		return nil, err
	}
	return b, nil
}

func newBreaker(s *shared, key string) *Breaker {
	b := &Breaker{shared: s, rules: s.life.Load().Settings, key: key}
	b.resize()
	if b.rules.Initial == Open {
		b.askDelay(0)
	}
	b.enter(b.rules.Initial)
	return b
}

func (s *shared) now() time.Duration { return time.Since(s.base) }

// Name returns the name of the breaker or the group.
func (s *shared) Name() string { return s.life.Name() }

// Config returns the Config of New or NewGroup, or of the last SetConfig.
func (s *shared) Config() Config { return s.life.Load().Config }

// SetConfig replaces the Config while the breaker is in use. The state stays; a resized window begins empty. An empty Name and a nil
// Registry stay as they are. Another Name or Registry, and each error of Config.Validate, is a *core.ConfigError, and nothing changes. For
// a breaker of a Group, it always returns a *core.ConfigError.
func (b *Breaker) SetConfig(cfg Config) error {
	if b.group {
		return &core.ConfigError{Field: "breaker.Breaker.SetConfig", Value: b.key, Reason: "must be called for its Group"}
	}
	if err := b.life.SetConfig(cfg, nil); err != nil {
		return err
	}
	b.adopt()
	return nil
}

// adopt makes the breaker follow the rules that are in force now.
func (b *Breaker) adopt() {
	b.change(func(context.Context) {
		old := b.rules
		if b.rules = b.life.Load().Settings; b.rules.Window != old.Window || b.rules.WindowTime != old.WindowTime {
			b.resize()
		}
		b.publish()
	})
}

// Override returns a context under which f changes the Config for calls of this breaker. Only SlowCall and Classify apply to a call;
// changes of other fields have no effect. Overrides nest; the innermost is applied last, and those of a Group before those of its breakers.
func (b *Breaker) Override(ctx context.Context, f func(*Config)) context.Context {
	b.overridden.Store(true)
	return override.Context(ctx, b, f)
}

// config returns the Config for a call.
func (b *Breaker) config(ctx context.Context) *Config {
	cfg := &b.life.Load().Config
	if b.overridden.Load() {
		cfg = override.Apply(ctx, b, override.Apply(ctx, b.shared, cfg))
	}
	return cfg
}

// Close removes the breaker from its registry. The breaker still works.
func (b *Breaker) Close() error {
	if b.group {
		return nil
	}
	return b.life.Close()
}
