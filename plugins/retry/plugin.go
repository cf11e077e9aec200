package retry

import (
	"context"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/retry"
)

// What the plugin shares with core/retry, so that one import is enough.
type (
	// Hooks observe the retries.
	Hooks = retry.Hooks
	// Info tells of a retry.
	Info = retry.Info
	// Stats are counts since the plugin was made.
	Stats = retry.Stats
	// CanceledError is the error of a request whose context ended in the wait for
	// a retry. It unwraps to the cause and to the failure before the wait, which
	// is a [*StatusError] where there was a response.
	CanceledError = retry.CanceledError
)

// A Plugin retries requests. It holds no state but counters, and any number of
// clients may share it.
type Plugin struct {
	cfg    Config
	policy *retry.Policy
}

// New makes a plugin. It returns what [Config.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func New(cfg Config) (*Plugin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.With(func(*Config) {})
	policy, err := retry.New(cfg.core())
	if err != nil {
		return nil, err
	}
	return &Plugin{cfg: cfg, policy: policy}, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return p.policy.Name() }

// Phase returns [client.State].
func (p *Plugin) Phase() client.Phase { return client.State }

// Config returns the Config that the plugin was made with, as it was given.
func (p *Plugin) Config() Config { return p.cfg.With(func(*Config) {}) }

// Stats returns the counts so far. An attempt that ended in a response which is
// not to be retried is a success, whatever its status.
func (p *Plugin) Stats() Stats { return p.policy.Stats() }

// Observe adds hooks to those of the Config, until cancel is called.
func (p *Plugin) Observe(h Hooks) (cancel func()) { return p.policy.Observe(h) }

// Close takes the plugin out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (p *Plugin) Close() error { return p.policy.Close() }

// Transport returns next with retries around it. A nil next is a clone of
// [http.DefaultTransport].
func (p *Plugin) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{plugin: p, next: next}
}

type overrideKey struct{ plugin *Plugin } // one key per instance: another client under the same ctx is untouched

// Override returns a context under which this plugin, and no other, uses its
// Config as changed by f. Overrides nest: the innermost is applied last. Name
// and Registry stay what they are. A Config that cannot be used then fails the
// request with a [*core.ConfigError], and nothing is sent.
func (p *Plugin) Override(ctx context.Context, f func(*Config)) context.Context {
	if outer, ok := ctx.Value(overrideKey{p}).(func(*Config)); ok {
		inner := f
		f = func(c *Config) { outer(c); inner(c) }
	}
	return context.WithValue(ctx, overrideKey{p}, f)
}

// settings returns the Config for a request, and what core/retry has to know of
// it if it is not the plugin's own.
func (p *Plugin) settings(ctx context.Context) (*Config, *retry.Config, error) {
	f, ok := ctx.Value(overrideKey{p}).(func(*Config))
	if !ok {
		return &p.cfg, nil, nil
	}
	cfg := p.cfg.With(f)
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	override := cfg.core()
	return &cfg, &override, nil
}
