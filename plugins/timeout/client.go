package timeout

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/validate"
)

// A Client limits the time of requests. It holds no state but counters, and any
// number of http.Clients may share it.
type Client struct {
	plugin[Config]
	total bool // or the limit of an attempt
}

// NewTotal makes a plugin that limits the whole of an exchange as its caller sees
// it: all attempts, the waits between them, and reading the body. It returns the errors
// of [Config.Validate], or of [core.Registry.Add].
func NewTotal(cfg Config) (*Client, error) { return newClient(cfg, true, "total", 30*time.Second) }

// NewAttempt makes a plugin that limits each attempt: until the headers of its
// response arrive, or its body is read with CutBody, and then each read of it by
// BodyIdle. The time of an upload is part of it; see ResponseHeader. Its place is just
// inside of [client.Attempt], so that a breaker counts its errors. It returns the errors
// of [Config.Validate], or of [core.Registry.Add].
func NewAttempt(cfg Config) (*Client, error) { return newClient(cfg, false, "attempt", 10*time.Second) }

func newClient(cfg Config, total bool, name string, limit time.Duration) (*Client, error) {
	c := &Client{total: total}
	err := c.init(c, &instance.Kind[Config, settings]{
		Type: "timeout.Config", DefaultName: name,
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry} // the timeout has the hooks
		},
		Settings: func(c *Config) settings {
			return settle(cmp.Or(c.Name, name), c.Disabled, cmp.Or(c.Limit, limit))
		},
		Fixed: func(check *validate.Check, _, c *Config) {
			if !total {
				check.That(!c.HeadersOnly || c.CutBody, "HeadersOnly", true, "must be false for the limit of an attempt")
				return
			}
			check.That(!c.CutBody || c.HeadersOnly, "CutBody", true, "must be false for a total limit") // both are an error of Validate
			check.That(c.ResponseHeader <= 0, "ResponseHeader", c.ResponseHeader, "must be 0 for a total limit")
		},
	}, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// cutsBody reports whether the limit applies while the body is read.
func (c *Client) cutsBody(cfg *Config) bool {
	if c.total {
		return !cfg.HeadersOnly
	}
	return cfg.CutBody
}

// Phase returns [client.Overall], or just inside of [client.Attempt] for an attempt.
func (c *Client) Phase() client.Phase {
	if c.total {
		return client.Overall
	}
	return client.Attempt + 10
}

// Config returns the Config of NewTotal or NewAttempt, or of the last SetConfig, as it
// was given except for a Name and Registry that stayed.
func (c *Client) Config() Config { return c.life.Load().Config }

// SetConfig replaces the Config while the plugin is in use. Requests in
// progress keep their limit; counts, observers and overrides stay. An empty Name and a
// nil Registry stay as they are: another one is a [*core.ConfigError], as are the errors
// of [Config.Validate], and nothing changes. A zero Limit is the default of NewTotal or
// NewAttempt.
func (c *Client) SetConfig(cfg Config) error { return c.setConfig(cfg) }

// Override returns a context under which f changes the Config of this plugin and of no
// other. Overrides nest: the innermost is applied last. Name and Registry stay.
// An invalid Config fails the request with a [*core.ConfigError], and nothing is sent. A
// nil f changes nothing.
func (c *Client) Override(ctx context.Context, f func(*Config)) context.Context {
	return override.Context(ctx, &c.plugin, f)
}

// Stats returns the counts so far. A response is a success, whatever its status; if a
// limit applies while its body is read, BodyIdle too, it is counted at the end of the
// body.
func (c *Client) Stats() Stats { return c.timeout.Stats() }

// Transport returns next with the limit around it. A nil next is a clone of
// [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}
