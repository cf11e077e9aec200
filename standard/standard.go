package standard

import (
	"errors"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// A Client is an [http.Client] and the plugins that its Transport is made of. Make it
// with [New]. Its fields must not be set.
type Client struct {
	*http.Client
	// Pipeline is the Transport of the http.Client.
	Pipeline *client.Transport

	Total   *timeout.Timeout
	Retry   *retry.Policy
	Limit   *ratelimit.Client
	Breaker *breaker.Group // of the hosts
	Attempt *timeout.Timeout
	own     []client.Plugin
}

// New makes a client. It returns the errors of [Config.Validate], or of
// a Registry that has the name already.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.resolved()
	c := &Client{}
	err := errors.Join(
		limit(c, &c.Total, cfg.Total, timeout.ClientOptions{}),
		c.retries(cfg.Retry),
		part(c, &c.Limit, cfg.Limit, ratelimit.NewClient),
		c.breakers(cfg.Breaker),
		limit(c, &c.Attempt, cfg.Attempt, timeout.ClientOptions{PerAttempt: true}),
	)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.Pipeline = client.New(cfg.HTTP.Transport, append(c.own, cfg.Plugins...)...)
	cfg.HTTP.Transport = c.Pipeline
	c.Client = &cfg.HTTP
	return c, nil
}

func part[P client.Plugin, C any](c *Client, to *P, cfg C, create func(C) (P, error)) error {
	p, err := create(cfg)
	if err == nil {
		*to, c.own = p, append(c.own, p)
	}
	return err
}

func limit(c *Client, to **timeout.Timeout, cfg timeout.Config, opts timeout.ClientOptions) error {
	t, err := timeout.New(cfg)
	if err == nil {
		*to, c.own = t, append(c.own, timeout.NewClient(t, opts))
	}
	return err
}

func (c *Client) retries(cfg retry.Config) (err error) {
	if c.Retry, err = retry.New(cfg); err == nil {
		c.own = append(c.own, retry.NewClient(c.Retry, retry.ClientOptions{}))
	}
	return err
}

func (c *Client) breakers(cfg breaker.Config) error {
	group, err := breaker.NewGroup(cfg)
	if err == nil {
		c.Breaker, c.own = group, append(c.own, breaker.NewClient(group, breaker.ClientOptions{}))
	}
	return err
}

// Close ends the waits for the limit, removes the parts from their registry and closes
// idle connections. Plugins of [Config].Plugins are not closed. A second Close does
// nothing more.
func (c *Client) Close() error {
	var errs []error
	if c.Limit != nil {
		errs = append(errs, c.Limit.Close())
	}
	if c.Total != nil {
		errs = append(errs, c.Total.Close())
	}
	if c.Retry != nil {
		errs = append(errs, c.Retry.Close())
	}
	if c.Breaker != nil {
		errs = append(errs, c.Breaker.Close())
	}
	if c.Attempt != nil {
		errs = append(errs, c.Attempt.Close())
	}
	if c.Client != nil {
		c.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
