package retry

import (
	"time"

	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
)

// A Policy retries operations. It holds no state but its Config and counters, so
// that any number of calls may use it at once.
type Policy struct {
	life     instance.Instance[Config, settings]
	base     time.Time // what Begin measures from, cheaper than a time.Now for each call
	counters counters
}

// settings follow from a Config.
type settings struct {
	direct bool // unless there are observers, a first success is returned as it is
	timed  bool // Begin reads the clock even without observers
}

func lifeCycle() *instance.Kind[Config, settings] {
	return &instance.Kind[Config, settings]{
		Kind: "retry", Type: "retry.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Settings: func(c *Config) settings {
			timed := timed(c)
			return settings{timed: timed, direct: !timed && c.RetryResult == nil && c.Map == nil}
		},
	}
}

// New makes a policy. It returns the errors of [Config.Validate], or of
// [core.Registry.Add].
func New(cfg Config) (*Policy, error) {
	p := &Policy{base: time.Now()}
	if err := p.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if err := p.life.Register(p, p.SetConfig, registry.Source{Figures: p.figures}); err != nil {
		return nil, err
	}
	return p, nil
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.life.Name() }

// Config returns the Config of New or of the last SetConfig, as it was given except
// for a Name and Registry that stayed.
func (p *Policy) Config() Config { return p.life.Load().Config }

// SetConfig replaces the Config for calls that begin from now on;
// calls in progress end under the Config they began with. Counts stay.
// An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are the errors of [Config.Validate], and nothing changes.
func (p *Policy) SetConfig(cfg Config) error { return p.life.SetConfig(cfg, nil) }

// Close removes the policy from its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (p *Policy) Close() error { return p.life.Close() }

// timed reports whether the elapsed time of a call is used.
func timed(c *Config) bool {
	return c.MaxElapsed > 0 || c.Delay != nil
}

func (p *Policy) now() time.Duration { return time.Since(p.base) }
