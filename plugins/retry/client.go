package retry

import (
	"context"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/validate"
)

// ClientOptions say which requests a [Client] sends again. The zero value is useful.
type ClientOptions struct {
	// Disabled sends each request once, as if there were no plugin.
	Disabled bool

	// CheckRetry decides about each response and error. It has the same type as that of go-retryablehttp, and gets the same arguments. If it
	// returns false and an error, that error is returned instead of the response. It must not read the body. If nil, Config.RetryIf decides
	// about temporary errors, and Config.RetryResult about responses; where they are nil, the function [CheckRetry] decides.
	CheckRetry func(ctx context.Context, resp *http.Response, err error) (bool, error)
	// Backoff computes the wait instead of Config.Backoff. It has the same type as that of go-retryablehttp: attempt is the number of the
	// retry, from 0, and resp is nil if there was an error. least and most are Delay and Max of Config.Backoff if that is a
	// backoff.Exponential, otherwise the defaults of that type. If nil, Config.Backoff is used.
	Backoff func(least, most time.Duration, attempt int, resp *http.Response) time.Duration
	// Repeatable reports whether a request can be sent twice. It is not called if nothing was sent. If nil, it is
	// [client.Idempotent].
	Repeatable func(req *http.Request) bool
	// ModifyRequest is called with the copy of the request for each retry, for example to sign it again. attempt is 2 the first time. If it
	// sets another body, both bodies are closed. An error ends the call, and is returned. It can be nil.
	ModifyRequest func(req *http.Request, attempt int) error
	// MaxBuffer is how many bytes of a body without GetBody are kept, so that it can be sent again. If zero, none are kept: such a request is
	// sent again only if nothing of its body was read. It must not be negative.
	MaxBuffer int64
}

// A Client sends requests again. It is safe for concurrent use. It is a [client.Plugin].
type Client struct {
	policy  *Policy
	options ClientOptions
}

// NewClient makes a plugin. If policy is nil, it makes one of the zero Config.
func NewClient(policy *Policy, opts ClientOptions) *Client {
	if policy == nil {
		policy = core.Must(New(Config{}))
	}
	return &Client{policy: policy, options: opts}
}

// Transport returns next with retries around it. A nil next is a clone of [http.DefaultTransport].
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{plugin: c, next: next}
}

// Override returns a context under which f changes the options of this plugin. For the Config, use Override of the policy.
// Overrides nest; the innermost is applied last.
func (c *Client) Override(ctx context.Context, f func(*ClientOptions)) context.Context {
	return override.Context(ctx, c, f)
}

// Phase returns [client.Attempts].
func (c *Client) Phase() client.Phase { return client.Attempts }

// String returns the type and the name of the policy, as in "retry.Client(default)".
func (c *Client) String() string { return "retry.Client(" + c.policy.Name() + ")" }

// under returns the options and the Config for a request. It does not validate the Config, since retry.Loop does.
func (c *Client) under(ctx context.Context) (opts *ClientOptions, cfg Config, err error) {
	opts, cfg = override.Apply(ctx, c, &c.options), c.policy.Config()
	cfg = *override.Apply(ctx, c.policy, &cfg)
	if opts.MaxBuffer < 0 {
		err = validate.Bad("retry.ClientOptions.MaxBuffer", opts.MaxBuffer, "must be >= 0 (0 keeps nothing)")
	}
	return opts, cfg, err
}
