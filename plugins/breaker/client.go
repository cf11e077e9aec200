package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

// A Client rejects requests to hosts that keep failing. Any number of http.Clients
// may share it, and with it what it knows of the hosts.
type Client struct {
	group   *breaker.Group
	mu      sync.Mutex // of SetConfig
	current atomic.Pointer[clientRules]
}

// clientRules are a ClientConfig as it is used.
type clientRules struct {
	cfg           ClientConfig
	key           func(*http.Request) string
	classify      func(context.Context, *http.Response, error) core.Outcome
	maxRetryAfter time.Duration
}

func newClientRules(cfg ClientConfig) *clientRules {
	r := &clientRules{cfg: cfg, key: cfg.key(), maxRetryAfter: cfg.maxRetryAfter()}
	r.classify = cfg.classify() //nolint:bodyclose // there is no response
	return r
}

// NewClient makes a plugin. It returns what [ClientConfig.Validate] finds, or the
// [*core.DuplicateError] of the registry.
func NewClient(cfg ClientConfig) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	group, err := breaker.NewGroup(cfg.core(), cfg.group())
	if err != nil {
		return nil, err
	}
	c := &Client{group: group}
	c.current.Store(newClientRules(cfg))
	return c, nil
}

// SetConfig replaces the ClientConfig while the plugin is in use. Where the new one
// cannot be used, the old one stays. The breakers keep their states and counts, as
// SetConfig of core/breaker tells. Name, Registry and MaxKeys must not change; a Name
// or Registry that is zero stays what it is.
func (c *Client) SetConfig(cfg ClientConfig) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.Config()
	cfg.Name, cfg.Registry = cmp.Or(cfg.Name, was.Name), cmp.Or(cfg.Registry, was.Registry)
	err := cfg.Validate()
	if cfg.MaxKeys != was.MaxKeys {
		err = errors.Join(err, &core.ConfigError{Field: "breaker.ClientConfig.MaxKeys", Value: cfg.MaxKeys, Reason: fmt.Sprintf("must stay %d", was.MaxKeys)})
	}
	if err != nil {
		return err
	}
	if err := c.group.SetConfig(cfg.core()); err != nil {
		return relabel("breaker.ClientConfig.", err)
	}
	c.current.Store(newClientRules(cfg))
	return nil
}

// Name returns the name of the plugin.
func (c *Client) Name() string { return c.group.Name() }

// Phase returns [client.Attempt].
func (c *Client) Phase() client.Phase { return client.Attempt }

// Config returns the ClientConfig that the plugin was made with, or that the last
// SetConfig gave it, as it was given. What the breakers were given alone, as through the
// registry, is in the Config of the [Client.Group], until the next SetConfig.
func (c *Client) Config() ClientConfig { return c.current.Load().cfg }

// For returns the breaker of a key, or nil if no request has used it yet. Without a Key
// in the ClientConfig the key is a host in any spelling, as in "api.example.com": if it
// has no port, that of https is looked for first, then that of http. For never makes a
// breaker: Get of the [Client.Group] does.
func (c *Client) For(key string) *Breaker {
	b := c.group.Lookup(key)
	if b != nil || c.current.Load().cfg.Key != nil {
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

// Group returns all the breakers.
func (c *Client) Group() *breaker.Group { return c.group }

// Stats returns the counts so far.
func (c *Client) Stats() breaker.GroupStats { return c.group.Stats() }

// Observe adds hooks to those of the Config, until cancel is called.
func (c *Client) Observe(h Hooks) (cancel func()) { return c.group.Observe(h) }

// Close takes the breakers out of their registry. The plugin goes on working. A
// second Close does nothing; the error is always nil.
func (c *Client) Close() error { return c.group.Close() }

// Transport returns next with the breakers around it. A nil next is a clone of
// [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}

// ClientCall is what one request may change.
type ClientCall struct {
	// Disabled sends the request past the breaker: it is neither rejected nor
	// counted.
	Disabled bool
	// Key is the key of the breaker to use. If empty, it is that of the request.
	Key string
	// Failed makes the exchange a failure where it returns true; where it does not,
	// Classify is asked. resp is nil when there is an err. It must leave the body
	// alone.
	Failed func(resp *http.Response, err error) bool
	// Classify tells how the exchange ended. If nil, it is that of the
	// ClientConfig.
	Classify func(ctx context.Context, resp *http.Response, err error) core.Outcome
}

// Override returns a context under which this plugin, and no other, treats
// requests as f says. Overrides nest: the innermost is applied last. A nil f changes
// nothing.
func (c *Client) Override(ctx context.Context, f func(*ClientCall)) context.Context {
	return override(ctx, overrideKey[Client]{c}, f)
}
