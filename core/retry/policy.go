package retry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
)

// A Policy retries operations. It is safe for concurrent use. It is a [core.Mechanism].
type Policy struct {
	life     instance.Instance[Config, struct{}]
	base     time.Time // calls measure time since base, which is cheaper than time.Now
	counters counters

	overridden atomic.Bool // Override was called: otherwise no context need be searched (BenchmarkDoFirstTry)
}

// zero is the policy that a nil *Policy stands for.
var zero = sync.OnceValue(func() *Policy { return core.Must(New(Config{})) }) //nolint:gochecknoglobals // a constant

// New makes a policy. It returns the errors of [Config.Validate], or an error if the name is in use in the registry.
func New(cfg Config) (*Policy, error) {
	p := &Policy{base: time.Now()}
	kind := &instance.Kind[Config, struct{}]{
		Kind: "retry", Type: "retry.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
	}
	if err := p.life.Init(kind, cfg); err != nil {
		return nil, err
	}
	if err := p.life.Register(p, p.SetConfig, registry.Source{Figures: p.figures}); err != nil {
		return nil, err
	}
	return p, nil
}

// Override returns a context under which f changes the Config for calls of this policy. Overrides nest; the innermost is applied last. Name
// and Registry cannot be changed. A call with an invalid Config returns a [*core.ConfigError], and makes no attempt.
func (p *Policy) Override(ctx context.Context, f func(*Config)) context.Context {
	p.overridden.Store(true)
	return override.Context(ctx, p, f)
}

// changes returns a function that applies the Overrides of a context, or nil.
func (p *Policy) changes(ctx context.Context) func(*Config) {
	if !p.overridden.Load() {
		return nil
	}
	return override.From[Policy, Config](ctx, p)
}

// Name returns the name of the policy.
func (p *Policy) Name() string { return p.life.Name() }

// Config returns the Config of New or of the last SetConfig.
func (p *Policy) Config() Config { return p.life.Load().Config }

// SetConfig replaces the Config for calls that begin from now on. An empty Name and a nil Registry stay as they are. Another Name or
// Registry, and each error of [Config.Validate], is a [*core.ConfigError], and nothing changes.
func (p *Policy) SetConfig(cfg Config) error { return p.life.SetConfig(cfg, nil) }

// Close removes the policy from its registry. The policy still works.
func (p *Policy) Close() error { return p.life.Close() }

// Run does the same as [Do]. It makes the Policy a [core.Mechanism].
func (p *Policy) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, p, next.Run) }

func (p *Policy) now() time.Duration { return time.Since(p.base) }

type attemptKey struct{}

// Attempt returns the number of the attempt that ctx belongs to, from 1. With nested retries it is that of the innermost. Outside of a
// retry it is 1, since a first attempt has the caller's own context.
func Attempt(ctx context.Context) int {
	n, _ := ctx.Value(attemptKey{}).(int)
	return max(1, n)
}
