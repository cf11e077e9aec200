package timeout

import (
	"context"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/override"
)

// ClientOptions say what a [Client] limits. The zero value limits the whole exchange.
type ClientOptions struct {
	// Disabled sends all requests without a limit.
	Disabled bool
	// PerAttempt limits each attempt of a retry separately, until the headers of its response have arrived. If false, the limit applies to the
	// whole exchange: all attempts, the waits between them, and the body. Override cannot change it.
	PerAttempt bool
}

// A Client limits the time of requests. It is safe for concurrent use. It is a client.Plugin.
type Client struct {
	timeout *mechanism
	opts    ClientOptions
}

// NewClient makes a plugin. If limit is nil, it makes one of the zero Config.
func NewClient(limit *Timeout, opts ClientOptions) *Client {
	return &Client{timeout: mechanismOf(limit), opts: opts}
}

// Transport returns next with the limit around it. A nil next is a clone of http.DefaultTransport.
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}

// Override returns a context under which f changes the options of this plugin. For the Limit, use Override of the timeout.
// Overrides nest; the innermost is applied last.
func (c *Client) Override(ctx context.Context, f func(*ClientOptions)) context.Context {
	return override.Context(ctx, c, f)
}

// Phase returns client.Overall, or the phase just inside of client.Attempt with PerAttempt.
func (c *Client) Phase() client.Phase {
	if c.opts.PerAttempt {
		return client.Attempt + 10
	}
	return client.Overall
}

// String returns the type and the name of the timeout, as in "timeout.Client(total)".
func (c *Client) String() string { return "timeout.Client(" + c.timeout.Life().Name() + ")" }
