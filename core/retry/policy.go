package retry

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/hook"
)

const kind = "retry"

// A Policy retries operations. It holds no state but its Config and counters, so
// that any number of calls may use it at once.
type Policy struct {
	settings  atomic.Pointer[settings]
	base      time.Time // what Begin measures from, cheaper than a time.Now for each call
	observers hook.Set[Hooks]
	panics    hook.Panics
	counters  counters
}

// The settings are a Config and what follows from it. They are never changed.
type settings struct {
	cfg    Config
	direct bool // while nobody observes, a first success is returned as it is
	timed  bool // Begin reads the clock even while nobody observes
}

func newSettings(cfg Config) *settings {
	timed := cfg.timed()
	return &settings{cfg: cfg, timed: timed, direct: !timed && cfg.RetryResult == nil && cfg.Map == nil}
}

// New makes a policy. It returns what [Config.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func New(cfg Config) (*Policy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Policy{base: time.Now()}
	p.settings.Store(newSettings(cfg))
	if cfg.Registry != nil {
		if err := cfg.Registry.Add(kind, p.Name(), p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.settings.Load().cfg.name() }

// Config returns the Config that the policy was made with, or that the last
// SetConfig gave it, as it was given; Name and Registry are those of New.
func (p *Policy) Config() Config { return p.settings.Load().cfg }

// SetConfig replaces the Config, Hooks included, for the calls that begin from
// now on; those that run end under the one they began with. Counts and observers
// stay. An empty Name and a nil Registry are as they were. Where cfg does not
// validate, or has another Name or Registry, the error says so and nothing changes.
func (p *Policy) SetConfig(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	old := &p.settings.Load().cfg
	cfg.Name, cfg.Registry = cmp.Or(cfg.Name, old.Name), cmp.Or(cfg.Registry, old.Registry)
	if cfg.name() != old.name() {
		return &core.ConfigError{Field: "retry.Config.Name", Value: cfg.Name, Reason: "must stay " + old.name()}
	}
	if cfg.Registry != old.Registry {
		return &core.ConfigError{Field: "retry.Config.Registry", Value: "another one", Reason: "must stay the same"}
	}
	p.settings.Store(newSettings(cfg))
	return nil
}

// Close takes the policy out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (p *Policy) Close() error {
	if r := p.settings.Load().cfg.Registry; r != nil {
		r.Remove(kind, p.Name(), p)
	}
	return nil
}

// Observe adds hooks to those of the Config, until cancel is called; events that
// happen at that moment may still be told.
func (p *Policy) Observe(h Hooks) (cancel func()) { return p.observers.Add(h) }

// timed tells whether somebody may ask for the time that has passed.
func (c Config) timed() bool {
	return c.MaxElapsed > 0 || c.Delay != nil || !empty(&c.Hooks)
}

func (p *Policy) now() time.Duration { return time.Since(p.base) }
