package standard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/phase"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// ClientConfig configures a [Client]. The zero value is useful. Each part has the defaults of its package, except for Attempt.
type ClientConfig struct {
	// Name names the parts that have no name: the timeouts are called Name-total and Name-attempt. If empty, it is "standard".
	Name string
	// Registry registers the parts that have no Registry. If nil, they are not registered.
	Registry *core.Registry
	// Base sends the requests. If nil, it is a clone of http.DefaultTransport.
	Base http.RoundTripper

	Total   timeout.Config // for the whole exchange; the zero value is 30 seconds
	Retry   retry.Config   // the zero value makes 3 attempts
	Breaker breaker.Config // one for each host; the zero value opens after 5 failures in a row
	// Attempt limits each attempt, until the headers of its response. If its Limit is zero, it is a third of that of Total, or 10 seconds if
	// Total has no limit.
	Attempt timeout.Config

	// Gate admits each request. If nil, it is a gate without limits, which enforces the pauses that hosts ask for. A 429 that asks for none
	// begins one of 1 second, the next one of 2, and so on, up to a sixth of the Limit of Total (5 seconds if it has none). That gate does not
	// repeat requests, since Retry does. A Gate of your own repeats those that the vendor refuses, up to its MaxAttempts in each attempt of
	// Retry: by the defaults of both, a GET is sent up to 15 times.
	Gate *gate.Gate
	// Plugins are further plugins, at the places of their phases.
	Plugins []client.Plugin
}

// resolve fills in names, registries and the Limits of both timeouts.
func (c *ClientConfig) resolve() {
	c.Name = cmp.Or(c.Name, "standard")
	named(&c.Total.Name, c.Name+"-total", &c.Total.Registry, c.Registry)
	named(&c.Retry.Name, c.Name, &c.Retry.Registry, c.Registry)
	named(&c.Breaker.Name, c.Name, &c.Breaker.Registry, c.Registry)
	named(&c.Attempt.Name, c.Name+"-attempt", &c.Attempt.Registry, c.Registry)
	c.Total.Limit = cmp.Or(c.Total.Limit, 30*time.Second)
	if c.Attempt.Limit == 0 {
		if c.Attempt.Limit = c.Total.Limit / 3; c.Total.Limit < 0 {
			c.Attempt.Limit = 10 * time.Second
		}
	}
}

func named(name *string, otherwise string, registry **core.Registry, common *core.Registry) {
	*name, *registry = cmp.Or(*name, otherwise), cmp.Or(*registry, common)
}

// validate reports every field that cannot be used, and limits that contradict each other. The Config must be resolved.
func (c *ClientConfig) validate() error {
	check := validate.Of("standard.ClientConfig")
	check.Part(validate.Relabel(c.Retry.Validate(), "standard.ClientConfig.Retry.", "retry.Config."))
	check.Part(validate.Relabel(c.Breaker.Validate(), "standard.ClientConfig.Breaker.", "breaker.Config."))
	total, attempt, window := c.Total.Limit, c.Attempt.Limit, c.Breaker.WindowTime
	check.That(total < 0 || attempt <= total, "Attempt.Limit", attempt,
		fmt.Sprintf("must be at most that of Total, %v, or nothing is retried after it", total))
	check.That(window <= 0 || attempt < 0 || window/2 >= attempt, "Breaker.WindowTime", window,
		fmt.Sprintf("must be at least twice the limit of an attempt, %v, to count slow attempts", attempt))
	var within phase.Places[client.Phase, client.Plugin]
	if c.Gate != nil {
		within = append(within, phase.Place[client.Phase, client.Plugin]{Plugin: c.Gate})
	}
	_, _, errs := phase.Sort("client", c.Plugins, within)
	check.Part(validate.Relabel(errors.Join(errs...), "standard.ClientConfig.Plugins", "client.New"))
	return check.Err()
}

// A Client is an http.Client with the mechanisms that its Transport uses.
type Client struct {
	*http.Client

	Total   *timeout.Timeout
	Retry   *retry.Policy
	Gate    *gate.Gate // that of the Config, or its own: Holds and Resume show and end the pauses of hosts
	Breaker *breaker.Group
	Attempt *timeout.Timeout

	parts parts
}

// NewClient makes a client. Its error has every field that cannot be used, and limits that contradict each other, joined. Each is a
// [*core.ConfigError].
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg.resolve()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{}
	var err error
	if cfg.Gate == nil {
		longest := 5 * time.Second
		if cfg.Total.Limit > 0 {
			longest = cfg.Total.Limit / 6 // so that three attempts fit
		}
		untold := backoff.Exponential{Delay: min(time.Second, longest), Max: longest, Jitter: -1}
		if cfg.Gate, err = gate.New(gate.Config{Name: cfg.Name, Registry: cfg.Registry, MaxAttempts: 1, Backoff: untold}); err == nil {
			c.parts = append(c.parts, own{cfg.Gate})
		}
	}
	c.Gate = cfg.Gate
	if err = errors.Join(
		err,
		part(&c.parts, &c.Total)(timeout.New(cfg.Total)),
		part(&c.parts, &c.Retry)(retry.New(cfg.Retry)),
		part(&c.parts, &c.Breaker)(breaker.NewGroup(cfg.Breaker)),
		part(&c.parts, &c.Attempt)(timeout.New(cfg.Attempt)),
	); err != nil {
		return nil, errors.Join(err, c.parts.Close())
	}
	c.Client = &http.Client{Transport: client.New(cfg.Base, append([]client.Plugin{
		timeout.NewClient(c.Total, timeout.ClientOptions{}),
		retry.NewClient(c.Retry, retry.ClientOptions{}),
		cfg.Gate,
		breaker.NewClient(c.Breaker, breaker.ClientOptions{}),
		timeout.NewClient(c.Attempt, timeout.ClientOptions{PerAttempt: true}),
	}, cfg.Plugins...)...)}
	return c, nil
}

// Close removes the mechanisms from the registry, and closes idle connections. If the Config had no Gate, it ends the requests that wait or
// are in flight, and later ones get [gate.ErrClosed].
func (c *Client) Close() error {
	c.CloseIdleConnections()
	return c.parts.Close()
}

// own is a gate that NewClient has made.
type own struct{ *gate.Gate }

func (o own) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = o.Gate.Close(ctx) // canceled calls are not a failure of Close
	return nil
}

// parts are the mechanisms that were made, to be closed together.
type parts []io.Closer

// part returns a function that takes the results of a constructor, and keeps the mechanism.
func part[M io.Closer](all *parts, to *M) func(M, error) error {
	return func(made M, err error) error {
		if err == nil {
			*to, *all = made, append(*all, made)
		}
		return err
	}
}

// Close closes all parts.
func (p parts) Close() error {
	var errs []error
	for _, c := range p {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
