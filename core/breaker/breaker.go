package breaker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/announce"
	"github.com/gresil/gresil/internal/instance"
)

// A Breaker admits or rejects calls, depending on how earlier calls ended. Its methods
// may be used by several goroutines at once.
type Breaker struct {
	*shared
	key     string
	grouped bool // a Group made it

	// Acquire reads these without the lock. They change with the state, under mu:
	// refusal first.
	word    atomic.Uint64             // generation<<wordBits, aging, timed, calm, state
	refusal atomic.Pointer[OpenError] // the error of a rejected call
	used    atomic.Bool               // since the Group last looked for a breaker to evict

	_  [64]byte // mu changes with most calls, the fields above with few
	mu sync.Mutex
	//
	rules      *rules
	state      State
	byHand     bool          // SetState was called
	generation uint64        // increases with each state that is entered
	opening    uint64        // the generation of the last Open or ForcedOpen
	since      time.Duration // when the state was entered
	until      time.Duration // Open: when the state ends
	openFor    time.Duration // duration of the last opening; 0 after the breaker closed
	delay      time.Duration // the last result of OpenDelay, which may be less
	opened     int           // openings since the breaker was last closed
	ring       ring
	buckets    *buckets // used instead of ring if there is a WindowTime
	trials     trials
	exceeded   exceeded
	changes    announce.Queue[change]
	queued     bool // changes were added under this lock

	counters counters
}

// shared is common to the breakers of a group.
type shared struct {
	life        instance.Instance[Config, *rules]
	base        time.Time                 // times are durations since then
	durations   atomic.Pointer[durations] // nil unless they are measured
	transitions [MetricsOnly + 1][MetricsOnly + 1]atomic.Uint64
}

func lifeCycle() *instance.Kind[Config, *rules] {
	return &instance.Kind[Config, *rules]{
		Kind: "breaker", Type: "breaker.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Settings: rulesOf,
	}
}

// New makes a breaker. It returns the errors of [Config.Validate], or of
// [core.Registry.Add].
func New(cfg Config) (*Breaker, error) {
	s := &shared{base: time.Now()}
	if err := s.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	b := newBreaker(s, "")
	if err := s.life.Register(b, b.SetConfig, b.source()); err != nil {
		return nil, err
	}
	return b, nil
}

func newBreaker(s *shared, key string) *Breaker {
	r := s.life.Load().Settings
	b := &Breaker{shared: s, rules: r, key: key, trials: trials{slots: make([]slot, r.Trials)}}
	if r.WindowTime > 0 {
		b.buckets = newBuckets(r.WindowTime)
	} else {
		b.ring = newRing(r.Window, r.SlowCall > 0)
	}
	if r.Initial == Open {
		b.askDelay(0)
	}
	b.enter(r.Initial, s.now())
	return b
}

func (s *shared) now() time.Duration { return time.Since(s.base) }

// Name returns the name, which the breakers of a [Group] share.
func (s *shared) Name() string { return s.life.Name() }

// Config returns the Config in use, as the constructor or the last SetConfig got it, except
// for a Name and Registry that stayed. The breakers of a [Group] share it.
func (s *shared) Config() Config { return s.life.Load().Config }

// Close removes the breaker from its registry. It goes on working. A second Close does
// nothing, and neither does Close of a breaker in a [Group]; the error is always nil.
func (b *Breaker) Close() error {
	if b.grouped {
		return nil
	}
	return b.life.Close()
}
