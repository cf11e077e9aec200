package retry

import (
	"time"

	"github.com/gresil/gresil/internal/hook"
)

const kind = "retry"

// A Policy retries operations. It holds no state but counters, so that any
// number of calls may use it at once.
type Policy struct {
	cfg       Config
	direct    bool      // while nobody observes, a first success is returned as it is
	timed     bool      // Begin reads the clock even while nobody observes
	base      time.Time // what Begin measures from, cheaper than a time.Now for each call
	observers hook.Set[Hooks]
	panics    hook.Panics
	counters  counters
}

// New makes a policy. It returns what [Config.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func New(cfg Config) (*Policy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Policy{cfg: cfg, timed: cfg.timed(), base: time.Now()}
	p.direct = !p.timed && cfg.RetryResult == nil && cfg.Map == nil
	if cfg.Registry != nil {
		if err := cfg.Registry.Add(kind, p.Name(), p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.cfg.name() }

// Config returns the Config that the policy was made with, as it was given.
func (p *Policy) Config() Config { return p.cfg }

// Close takes the policy out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (p *Policy) Close() error {
	if r := p.cfg.Registry; r != nil {
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
