package retry

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

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
	// Budget limits the retries of all who share it.
	Budget = retry.Budget
)

// NewBudget makes a budget that allows ratio retries per request, and
// minPerSecond retries each second besides: see [retry.NewBudget].
func NewBudget(ratio float64, minPerSecond int) (*Budget, error) {
	return retry.NewBudget(ratio, minPerSecond)
}

// A Plugin retries requests. It holds no state but its Config and counters, and any
// number of clients may share it.
type Plugin struct {
	policy   *retry.Policy
	settings atomic.Pointer[settings]
	mu       sync.Mutex // held while policy and settings are made to agree
}

// The settings are a Config and the pointer to the part of it that the policy
// has. They are never changed.
type settings struct {
	cfg  Config
	core *retry.Config
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
	p := &Plugin{policy: policy}
	call := policy.Begin(nil)
	p.settings.Store(&settings{cfg: cfg.withCore(call.Config()), core: call.Config()})
	return p, nil
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return p.policy.Name() }

// Phase returns [client.Attempts].
func (p *Plugin) Phase() client.Phase { return client.Attempts }

// Config returns the Config that the plugin was made with, or that the last
// SetConfig gave it, as it was given; Name and Registry are those of New.
func (p *Plugin) Config() Config {
	var call retry.Call
	cfg := p.begin(&call)
	return cfg.With(func(*Config) {})
}

// SetConfig replaces the Config, Hooks included, for the requests that begin from
// now on; those that run end under the one they began with. Counts, observers and
// overrides stay. An empty Name and a nil Registry are as they were. Where cfg does
// not validate, or has another Name or Registry, the error says so and nothing
// changes.
func (p *Plugin) SetConfig(cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.policy.SetConfig(cfg.core()); err != nil {
		return err
	}
	call := p.policy.Begin(nil)
	p.settings.Store(&settings{cfg: cfg.With(func(*Config) {}).withCore(call.Config()), core: call.Config()})
	return nil
}

// begin begins a call, and returns the Config that belongs to it.
func (p *Plugin) begin(call *retry.Call) *Config {
	*call = p.policy.Begin(nil)
	if s := p.settings.Load(); s.core == call.Config() {
		return &s.cfg
	}
	return p.agree(call)
}

// agree is begin where the Config was replaced this moment, here or only in the
// policy.
func (p *Plugin) agree(call *retry.Call) *Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	*call = p.policy.Begin(nil)
	s := p.settings.Load()
	if s.core != call.Config() {
		s = &settings{cfg: s.cfg.withCore(call.Config()), core: call.Config()}
		p.settings.Store(s)
	}
	return &s.cfg
}

// Stats returns the counts so far. An attempt that ended in a response which is
// not to be retried is a success, whatever its status. A request that ends before
// its first attempt, as by a context that was done or an Override that cannot be
// used, is in no count.
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
// request with a [*core.ConfigError], and nothing is sent. A nil f changes nothing.
func (p *Plugin) Override(ctx context.Context, f func(*Config)) context.Context {
	if f == nil {
		return ctx
	}
	if outer, ok := ctx.Value(overrideKey{p}).(func(*Config)); ok {
		inner := f
		f = func(c *Config) { outer(c); inner(c) }
	}
	return context.WithValue(ctx, overrideKey{p}, f)
}

// beginRequest begins the call for a request, and returns its Config.
func (p *Plugin) beginRequest(ctx context.Context, call *retry.Call) (*Config, error) {
	base := p.begin(call)
	f, ok := ctx.Value(overrideKey{p}).(func(*Config))
	if !ok {
		return base, nil
	}
	cfg := base.With(f)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	override := cfg.core()
	*call = p.policy.Begin(&override)
	return &cfg, nil
}
