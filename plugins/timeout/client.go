package timeout

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

// A Client limits the time of requests. It holds no state but counters, and any
// number of http.Clients may share it.
type Client struct {
	live[Config]
	phase client.Phase
	limit time.Duration // of a Config that has none
	total bool
}

// NewTotal makes a plugin that limits the whole of an exchange as its caller sees
// it: all attempts, the waits between them, and reading the body. It returns what
// [Config.Validate] finds, or the [*core.DuplicateError] of the registry.
func NewTotal(cfg Config) (*Client, error) {
	return newClient(cfg, &Client{phase: client.Overall, limit: DefaultTotalLimit, total: true}, DefaultTotalName)
}

// NewAttempt makes a plugin that limits each attempt: until the headers of its
// response are there, or its body is read with CutBody, and then each read of it by
// BodyIdle. The time of an upload is part of it; see ResponseHeader. Its place is just inside of [client.Attempt], so that a breaker counts its
// errors. It returns what [Config.Validate] finds, or the [*core.DuplicateError] of
// the registry.
func NewAttempt(cfg Config) (*Client, error) {
	return newClient(cfg, &Client{phase: client.Attempt + 10, limit: DefaultAttemptLimit}, DefaultAttemptName)
}

func newClient(cfg Config, c *Client, name string) (*Client, error) {
	if err := c.validate(cfg); err != nil {
		return nil, err
	}
	inner := cfg.core()
	inner.Limit = c.resolve(cfg.Limit)
	if inner.Name == "" {
		inner.Name = name
	}
	t, err := timeout.New(inner)
	if err != nil {
		return nil, err
	}
	c.timeout = t
	c.adopt = func(cfg *Config, part timeout.Config) {
		if cfg.Registry, cfg.Hooks = part.Registry, part.Hooks; c.resolve(cfg.Limit) != part.Limit {
			cfg.Limit = part.Limit
		}
	}
	c.agreeLocked(cfg)
	return c, nil
}

// SetConfig replaces the Config, Hooks included, while the plugin is in use. Requests
// that are on their way keep their limit; counts, observers and overrides stay. An empty
// Name and a nil Registry are what they were: another one is a [*core.ConfigError], as
// is what [Config.Validate] finds, and nothing changes.
//
// SetConfig of the timeout in the registry sets what both have.
func (c *Client) SetConfig(cfg Config) error {
	if err := c.validate(cfg); err != nil {
		return err
	}
	part := cfg.core()
	part.Limit = c.resolve(cfg.Limit)
	cfg.Name = cmp.Or(cfg.Name, c.Config().Name)
	return c.set(cfg, part)
}

// Name returns the name of the plugin.
func (c *Client) Name() string { return c.timeout.Name() }

// Phase returns [client.Overall], or just inside of [client.Attempt] for an attempt.
func (c *Client) Phase() client.Phase { return c.phase }

// Config returns the Config that the plugin was made with, or that the last SetConfig
// gave it, as it was given but for a Name and Registry that stayed.
func (c *Client) Config() Config { return c.now().cfg }

// Stats returns the counts so far. A response is a success, whatever its status; where
// a limit holds while its body is read, BodyIdle too, it is counted when that has ended.
func (c *Client) Stats() Stats { return c.timeout.Stats() }

// Observe adds hooks to those of the Config, until cancel is called.
func (c *Client) Observe(h Hooks) (cancel func()) { return c.timeout.Observe(h) }

// Close takes the plugin out of its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (c *Client) Close() error { return c.timeout.Close() }

// Transport returns next with the limit around it. A nil next is a clone of
// [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}

type overrideKey[P any] struct{ plugin *P } // one key per instance: another client under the same ctx is untouched

// Override returns a context under which this plugin, and no other, uses its
// Config as changed by f. Overrides nest: the innermost is applied last. Name,
// Registry and Hooks stay what they are. A Config that cannot be used then fails
// the request with a [*core.ConfigError], and nothing is sent. A nil f changes nothing.
func (c *Client) Override(ctx context.Context, f func(*Config)) context.Context {
	return override(ctx, overrideKey[Client]{c}, f)
}

func override[P, C any](ctx context.Context, key overrideKey[P], f func(*C)) context.Context {
	if f == nil {
		return ctx
	}
	if outer, ok := ctx.Value(key).(func(*C)); ok {
		inner := f
		f = func(c *C) { outer(c); inner(c) }
	}
	return context.WithValue(ctx, key, f)
}

// settings returns the Config for a request, and the error for its limit.
func (c *Client) settings(ctx context.Context) (*Config, *Error, error) {
	f, ok := ctx.Value(overrideKey[Client]{c}).(func(*Config))
	s := c.now()
	if !ok {
		return &s.cfg, s.err, nil
	}
	cfg := s.cfg.With(f)
	if err := c.validate(cfg); err != nil {
		return nil, nil, err
	}
	return &cfg, &Error{Name: c.Name(), Limit: c.resolve(cfg.Limit)}, nil
}

// validate adds to Validate of cfg that a total limit has no ResponseHeader: it would have
// to hold for each attempt.
func (c *Client) validate(cfg Config) error {
	err := cfg.Validate()
	if c.total && cfg.ResponseHeader > 0 {
		err = errors.Join(err, &core.ConfigError{Field: "timeout.Config.ResponseHeader", Value: cfg.ResponseHeader, Reason: "must be 0 for a total limit"})
	}
	return err
}

func (c *Client) resolve(limit time.Duration) time.Duration {
	if limit == 0 {
		return c.limit
	}
	return limit
}

// cutsBody tells whether the limit holds while the body is read.
func (c *Client) cutsBody(cfg *Config) bool { return cfg.CutBody || c.total && !cfg.HeadersOnly }
