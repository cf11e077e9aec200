package retry

import (
	"context"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
)

// A Plugin retries requests. It holds no state but its Config and counters, and any
// number of clients may share it.
type Plugin struct {
	life   instance.Instance[Config, retry.Config] // the settings are the policy's Config
	policy *retry.Policy
}

func lifeCycle() *instance.Kind[Config, retry.Config] {
	return &instance.Kind[Config, retry.Config]{
		Kind: "retry", Type: "retry.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Settings: func(c *Config) retry.Config { return c.core() },
	}
}

// New makes a plugin. It returns the errors of [Config.Validate], or of
// [core.Registry.Add].
func New(cfg Config) (*Plugin, error) {
	p := &Plugin{}
	err := p.life.Init(lifeCycle(), cfg.clone())
	if err != nil {
		return nil, err
	}
	inner := p.life.Load().Settings
	inner.Registry = &core.Registry{}
	if p.policy, err = retry.New(inner); err != nil {
		return nil, err
	}
	if err = p.life.Register(p, p.SetConfig, instance.Inner(inner.Registry)); err != nil {
		return nil, err
	}
	return p, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return p.life.Name() }

// Phase returns [client.Attempts].
func (p *Plugin) Phase() client.Phase { return client.Attempts }

// Config returns the Config of New or of the last SetConfig, as it was given except
// for a Name and Registry that stayed.
func (p *Plugin) Config() Config { return p.life.Load().Config.clone() }

// SetConfig replaces the Config for requests that begin from now on;
// requests in progress end under the Config they began with. Counts and overrides stay. An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are the errors of [Config.Validate], and nothing changes.
func (p *Plugin) SetConfig(cfg Config) error {
	return p.life.SetConfig(cfg.clone(), func(cfg *Config) error { return p.policy.SetConfig(cfg.core()) })
}

// Override returns a context under which f changes the Config of this plugin and of no
// other. Overrides nest: the innermost is applied last. Name and Registry stay. An
// invalid Config fails the request with a [*core.ConfigError], and nothing is sent. A
// nil f changes nothing.
func (p *Plugin) Override(ctx context.Context, f func(*Config)) context.Context {
	return override.Context(ctx, p, f)
}

// Stats returns the counts so far. An attempt with a response that is not retried is a
// success, whatever its status. A request that ends before its first attempt, as with
// a context that was done or an invalid Override, is in no count.
func (p *Plugin) Stats() Stats { return p.policy.Stats() }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (p *Plugin) Close() error { return p.life.Close() }

// Transport returns next with retries around it. A nil next is a clone of
// [http.DefaultTransport].
func (p *Plugin) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{plugin: p, next: next}
}

// begin begins the call of a request, and returns its Config. It begins none if that is
// Disabled.
func (p *Plugin) begin(ctx context.Context, call *retry.Call) (*Config, error) {
	now := p.life.Load()
	cfg, core := &now.Config, &now.Settings
	if f := override.From[Plugin, Config](ctx, p); f != nil {
		changed := now.Config.clone()
		f(&changed)
		if err := changed.Validate(); err != nil {
			return nil, err
		}
		part := changed.core()
		cfg, core = &changed, &part
	}
	if !cfg.Disabled {
		*call = p.policy.Begin(core)
	}
	return cfg, nil
}
