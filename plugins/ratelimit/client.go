package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/internal/waitq"
)

// A Client delays requests until they are within a limit, and while the server asks for a
// pause. It is a [client.Plugin].
//
// One response that asks for it, as a 429 with Retry-After (Feedback of the ClientConfig),
// holds back every request with the same key, including those that wait for their turn.
// After the hold a single request is sent, and each success makes room for one more; see
// core/cooldown. If such a request gets a 429 or 503 without a time to wait, the key is
// held for as long again.
//
// A response to a request that was sent before a hold can extend that hold while it
// lasts. After the hold it changes nothing. A response to any request that was sent after a
// hold can begin the next one, also after all requests are admitted again.
type Client struct {
	plugin
	gate    *cooldown.Cooldown
	remove  func()       // the gate from the registry
	credits atomic.Int64 // tokens of a Limiter of x/time that were given back
	line    waitq.Lines[turn]
	closed  chan struct{}
	closing sync.Once
}

// NewClient makes a plugin. It returns the errors of [ClientConfig.Validate], or of
// a Registry that has the name already.
func NewClient(cfg ClientConfig) (*Client, error) {
	c := &Client{closed: make(chan struct{})}
	err := c.init(cfg, instance.Kind[ClientConfig, struct{}]{
		Fields: func(c *ClientConfig) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Fixed: func(check *validate.Check, old, cfg *ClientConfig) {
			was := old.Limiter != nil
			check.That((cfg.Limiter != nil) == was, "Limiter", !was, fmt.Sprintf("must stay set: %t", was))
			check.That((cfg.CooldownStore == nil || identity.Comparable(cfg.CooldownStore)) && cfg.CooldownStore == old.CooldownStore, "CooldownStore", "another one", "must stay as it is")
		},
	})
	if err != nil {
		return nil, err
	}
	if err = c.hold(&cfg); err == nil {
		c.source.Hosts = c.hosts
		err = c.life.Register(c, c.SetConfig, c.source)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// hosts reports whether the keys are hosts.
func (c *Client) hosts() bool { return c.limiter != nil && c.life.Load().Config.Key == nil }

// hold makes the cooldown, which is in the registry too.
func (c *Client) hold(cfg *ClientConfig) (err error) {
	inner := cfg.cooldown()
	inner.Registry = &core.Registry{}
	if c.gate, err = cooldown.New(inner); err != nil {
		return err
	}
	source := instance.Inner(inner.Registry)
	source.Hosts = c.hosts
	c.remove, err = (*registry.Registry)(cfg.Registry).Add(registry.Entry{Kind: "cooldown", Name: c.gate.Name(), Instance: c.gate, Source: source})
	if err != nil {
		return validate.Bad("ratelimit.ClientConfig.Name", c.gate.Name(), err.Error())
	}
	return nil
}

// Config returns the ClientConfig of NewClient or of the last SetConfig, as it was given
// except for a Name and Registry that stayed.
func (c *Client) Config() ClientConfig { return c.life.Load().Config }

// SetConfig replaces the ClientConfig while the plugin is in use, as SetConfig of
// core/ratelimit does. Keys keep their usage and their holds. A Key and a Feedback apply to
// requests that begin from now on. Observers and overrides stay. An empty Name and a nil
// Registry stay as they are. Another Name, Registry, Store, CooldownStore or MaxKeys, a Limiter that is added or
// removed, and each error of [ClientConfig.Validate], is a [*core.ConfigError], and nothing changes.
func (c *Client) SetConfig(cfg ClientConfig) error {
	return c.life.SetConfig(cfg, func(cfg *ClientConfig) error {
		if err := c.setCore(*cfg); err != nil {
			return err
		}
		return c.gate.SetConfig(cfg.cooldown()) // it was validated
	})
}

// A ClientCall has the settings that [Client.Override] can change for a request.
type ClientCall struct {
	// Disabled switches the plugin off: the request is sent at once, takes nothing, and
	// its response holds nothing.
	Disabled bool
	// Key is that of the ClientConfig. It must be nil with a Limiter of x/time.
	Key func(req *http.Request) string
}

// Override returns a context under which this plugin, and no other, uses its settings as
// changed by f. Overrides nest: the innermost is applied last. With settings that cannot
// be used the request is not sent and fails with a [*core.ConfigError]. A nil f changes
// nothing.
func (c *Client) Override(ctx context.Context, f func(*ClientCall)) context.Context {
	return override.Context(ctx, c, f)
}

// Stats returns the counters of the limiter, which are zero with a Limiter of x/time. Cooldown
// has those of the holds.
func (c *Client) Stats() ClientStats {
	if c.limiter == nil {
		return ClientStats{}
	}
	return c.limiter.Stats()
}

// Phase is [client.Admission]: each retry waits for its turn, and a request that
// waits does not look slow to a breaker.
func (c *Client) Phase() client.Phase { return client.Admission }

// Close removes the plugin from its registry and closes its limiter and its cooldown: it
// ends every wait, and later requests fail. A Limiter of x/time stays as it is. A second
// Close does nothing.
func (c *Client) Close() error {
	c.closing.Do(func() { close(c.closed) })
	err := c.close()
	if c.remove != nil {
		c.remove()
	}
	if c.gate != nil {
		err = errors.Join(err, c.gate.Close())
	}
	return err
}

// Cooldown returns the cooldown of the keys: to hold a key, and to release it.
func (c *Client) Cooldown() *cooldown.Cooldown { return c.gate }

// Transport returns next with the limit before it. The error of a rejected request
// matches [core.ErrRejected] and has a RetryAfter: it is that of the limiter, or a
// *cooldown.HeldError. A request that an inner mechanism rejects is not charged. A nil next is a clone of [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &clientTransport{c, next}
}
