package breaker

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/validate"
)

// A Client rejects requests to hosts that keep failing. Any number of http.Clients may
// share it and its breakers.
type Client struct {
	plugin[ClientConfig, clientRules, ClientCall]
}

func clientLife() *instance.Kind[ClientConfig, clientRules] {
	return &instance.Kind[ClientConfig, clientRules]{
		Kind: "breaker", Type: "breaker.ClientConfig", DefaultName: "default",
		Fields: func(c *ClientConfig) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Settings: rulesOf,
		Fixed: func(check *validate.Check, old, cfg *ClientConfig) {
			check.That(cfg.MaxKeys == old.MaxKeys, "MaxKeys", cfg.MaxKeys, mustStay(old.MaxKeys))
		},
	}
}

// NewClient makes a plugin. It returns the errors of [ClientConfig.Validate], or of
// [core.Registry.Add].
func NewClient(cfg ClientConfig) (*Client, error) {
	c := &Client{}
	if err := c.init(c, clientLife(), cfg, true, func() bool { return c.life.Load().Config.Key == nil }, cfg.MaxKeys); err != nil {
		return nil, err
	}
	return c, nil
}

// Phase returns [client.Attempt].
func (c *Client) Phase() client.Phase { return client.Attempt }

// Config returns the ClientConfig of NewClient or of the last SetConfig, as it was given
// except for a Name and Registry that stayed.
func (c *Client) Config() ClientConfig { return c.life.Load().Config }

// SetConfig replaces the ClientConfig while the plugin is in use: see
// [breaker.Group.SetConfig]. States and counts stay. An empty Name and a nil
// Registry stay as they are; MaxKeys must stay the same. With an error nothing changes.
func (c *Client) SetConfig(cfg ClientConfig) error { return c.setConfig(cfg) }

// Override returns a context under which f changes how this plugin, and no other, treats
// requests. Overrides nest: the innermost is applied last. A nil f changes nothing.
func (c *Client) Override(ctx context.Context, f func(*ClientCall)) context.Context {
	return override.Context(ctx, &c.plugin, f)
}

// For returns the breaker of a key, or nil if no request has used it yet. Without a Key
// in the ClientConfig the key is a host in any spelling, as in "api.example.com": without
// a port, that of https is looked up first, then that of http. For never makes a
// breaker: Get of the [Client.Group] does.
func (c *Client) For(key string) *Breaker {
	b := c.group.Lookup(key)
	if b != nil || c.life.Load().Config.Key != nil {
		return b
	}
	for _, scheme := range []string{"https", "http"} {
		host := client.Host(&http.Request{URL: &url.URL{Scheme: scheme, Host: key}})
		if b = c.group.Lookup(host); b != nil {
			break
		}
	}
	return b
}

// Stats returns the counts so far.
func (c *Client) Stats() GroupStats { return c.group.Stats() }

// Transport returns next with the breakers around it. A nil next is a clone of
// [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}

// ClientCall is the part that can change for one request.
type ClientCall struct {
	// Disabled sends the request past the breaker: it is neither rejected nor counted.
	Disabled bool
	// Key is the key of the breaker to use. If empty, it is that of the request.
	Key string
	// Classify is that of the ClientConfig, or the default, when the function of an
	// Override gets it: a function that replaces it can call it. If nil, it stays.
	Classify func(ctx context.Context, resp *http.Response, err error) core.Outcome
}
