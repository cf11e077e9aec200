package timeout

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
)

// A Client limits the time of requests. It holds no state but counters, and any
// number of http.Clients may share it.
type Client struct {
	life    instance.Instance[Config, *Error, Hooks] // the settings are the error of Limit
	timeout *timeout.Timeout
	side
}

// A side is the total limit, or that of an attempt.
type side struct {
	total bool
	phase client.Phase
	name  string        // of a Config without a name
	limit time.Duration // of a Config without a limit
}

// NewTotal makes a plugin that limits the whole of an exchange as its caller sees
// it: all attempts, the waits between them, and reading the body. It returns the errors
// of [Config.Validate], or the [*core.DuplicateError] of the registry.
func NewTotal(cfg Config) (*Client, error) {
	return newClient(cfg, side{true, client.Overall, DefaultTotalName, DefaultTotalLimit})
}

// NewAttempt makes a plugin that limits each attempt: until the headers of its
// response arrive, or its body is read with CutBody, and then each read of it by
// BodyIdle. The time of an upload is part of it; see ResponseHeader. Its place is just
// inside of [client.Attempt], so that a breaker counts its errors. It returns the errors
// of [Config.Validate], or the [*core.DuplicateError] of the registry.
func NewAttempt(cfg Config) (*Client, error) {
	return newClient(cfg, side{false, client.Attempt + 10, DefaultAttemptName, DefaultAttemptLimit})
}

func newClient(cfg Config, of side) (*Client, error) {
	c := &Client{side: of}
	err := cfg.check(of.total)
	if err != nil {
		return nil, err
	}
	if err = c.life.Init(of.lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if c.timeout, err = timeout.New(c.core(&cfg)); err != nil {
		return nil, err
	}
	if err = c.life.Register(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (s side) lifeCycle() *instance.Kind[Config, *Error, Hooks] {
	return &instance.Kind[Config, *Error, Hooks]{
		Kind: "timeout", Type: "timeout.Config", DefaultName: s.name,
		Fields: func(c *Config) instance.Fields[Hooks] {
			return instance.Fields[Hooks]{Name: &c.Name, Registry: &c.Registry, Hooks: nil}
		},
		Settings: s.error,
	}
}

// error returns the error of the limit of cfg, which is negative if there is none.
func (s side) error(cfg *Config) *Error {
	return &Error{Name: cmp.Or(cfg.Name, s.name), Limit: cmp.Or(cfg.Limit, s.limit)}
}

// core returns the Config of the timeout, which is not registered itself.
func (s side) core(cfg *Config) timeout.Config {
	of := s.error(cfg)
	if cfg.Disabled {
		of.Limit = -1
	}
	return timeout.Config{Name: of.Name, Limit: of.Limit, Hooks: cfg.Hooks}
}

// cutsBody reports whether the limit applies while the body is read.
func (s side) cutsBody(cfg *Config) bool { return cfg.CutBody || s.total && !cfg.HeadersOnly }

// SetConfig replaces the Config, Hooks included, while the plugin is in use. Requests in
// progress keep their limit; counts, observers and overrides stay. An empty Name and a
// nil Registry stay as they are: another one is a [*core.ConfigError], as are the errors
// of [Config.Validate], and nothing changes. A zero Limit is the default of NewTotal or
// NewAttempt.
func (c *Client) SetConfig(cfg Config) error {
	if err := cfg.check(c.total); err != nil {
		return err
	}
	return c.life.SetConfig(cfg, func(cfg *Config) error { return c.timeout.SetConfig(c.core(cfg)) })
}

// Name returns the name of the plugin.
func (c *Client) Name() string { return c.life.Name() }

// Phase returns [client.Overall], or just inside of [client.Attempt] for an attempt.
func (c *Client) Phase() client.Phase { return c.phase }

// Config returns the Config of NewTotal or NewAttempt, or of the last SetConfig, as it
// was given except for a Name and Registry that stayed.
func (c *Client) Config() Config { return c.life.Load().Config }

// Override returns a context under which f changes the Config of this plugin and of no
// other. Overrides nest: the innermost is applied last. Name, Registry and Hooks stay.
// An invalid Config fails the request with a [*core.ConfigError], and nothing is sent. A
// nil f changes nothing.
func (c *Client) Override(ctx context.Context, f func(*Config)) context.Context {
	return override.Context(ctx, c, f)
}

// Stats returns the counts so far. A response is a success, whatever its status; if a
// limit applies while its body is read, BodyIdle too, it is counted at the end of the
// body.
func (c *Client) Stats() Stats { return c.timeout.Stats() }

// Observe adds hooks to those of the Config, until cancel is called. Hooks that run at
// that moment are not interrupted.
func (c *Client) Observe(h Hooks) (cancel func()) { return c.timeout.Observe(h) }

// Mechanisms returns the *timeout.Timeout of core/timeout. It makes a Client
// [core.Composed].
func (c *Client) Mechanisms() []any { return []any{c.timeout} }

// Close removes the plugin from its registry. It goes on working. A second Close does
// nothing; the error is always nil.
func (c *Client) Close() error { return c.life.Close() }

// Transport returns next with the limit around it. A nil next is a clone of
// [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}

// settings returns the Config for a request, and the error for its limit.
func (c *Client) settings(ctx context.Context) (*Config, *Error, error) {
	now := c.life.Load()
	f := override.From[Client, Config](ctx, c)
	if f == nil {
		return &now.Config, now.Settings, nil
	}
	cfg := now.Config.With(f)
	if err := cfg.check(c.total); err != nil {
		return nil, nil, err
	}
	return &cfg, &Error{Name: c.Name(), Limit: c.error(&cfg).Limit}, nil
}
