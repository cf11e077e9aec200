package breaker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/roundtrip"
)

// ClientOptions say how a [Client] applies its breakers to requests. With the zero value, there is a breaker for each host.
type ClientOptions struct {
	// Disabled sends all requests past the breakers: they are neither rejected nor counted.
	Disabled bool
	// Key returns the key of the breaker for a request. A request without a key passes. If nil, it is client.Host, which includes the port
	// unless it is that of https: "api.example.com" or "api.example.com:80". With a Key, also one that an Override sets, the keys of the whole
	// group are no longer taken for hosts: they are in no log, metric or error text by themselves.
	Key func(req *http.Request) (key string, ok bool)
	// Classify returns the outcome of an exchange. It must not read the body. If nil, it is client.Classify. If the response of a failure says
	// how long to wait (client.RetryAfter), and the failure opens the breaker, the breaker stays open for at least that long. A failure that
	// an outer gate (outbound/gate) takes for a refusal by a limit counts as core.Ignored: the gate keeps the pause, and requests wait.
	Classify func(req *http.Request, resp *http.Response, err error) core.Outcome
	// Trip returns for how long a response opens the breaker by itself, such as one by which the server bans the caller. If it returns 0,
	// Classify decides. If nil, no response does so.
	Trip func(resp *http.Response) time.Duration
}

// A Client rejects requests while the breaker of their key is open. It is safe for concurrent use. It is a client.Plugin.
type Client struct {
	group *Group
	opts  ClientOptions
}

// NewClient makes a plugin. If group is nil, it makes one of the zero Config.
func NewClient(group *Group, opts ClientOptions) *Client {
	return &Client{bound(group, opts.Key == nil), opts}
}

// Override returns a context under which f changes the options of this plugin. Overrides nest; the innermost is applied last.
func (c *Client) Override(ctx context.Context, f func(*ClientOptions)) context.Context {
	return override.Context(ctx, c, f)
}

// Phase returns client.Attempt.
func (c *Client) Phase() client.Phase { return client.Attempt }

// String returns the type and the name of the group, as in "breaker.Client(search)".
func (c *Client) String() string { return "breaker.Client(" + c.group.Name() + ")" }

// Transport returns next with the breakers around it. A nil next is a clone of http.DefaultTransport.
func (c *Client) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{client: c, next: next}
}

type transport struct {
	client *Client
	next   http.RoundTripper
}

// CloseIdleConnections passes on the call.
func (t *transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// RoundTrip sends req if its breaker admits it.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := sending{request: req}
	defer x.end()
	opts := override.Apply(req.Context(), t.client, &t.client.opts)
	key, ok := "", false
	switch {
	case opts.Disabled:
	case opts.Key == nil:
		key, ok = client.Host(req)
	default:
		if opts != &t.client.opts { // the Key can be that of an Override
			registry.BindKeys(t.client.group, false)
		}
		key, ok = opts.Key(req)
	}
	if !ok {
		x.returned = true
		return t.next.RoundTrip(req)
	}
	var err error
	if x.permit, err = t.client.group.For(key).Acquire(req.Context()); err != nil {
		return nil, err
	}
	x.body = *client.NewReplay(req, 0)
	x.request, _ = x.body.Attempt(req.Context()) // the first cannot fail
	x.sending = true
	x.resp, err = t.next.RoundTrip(x.request)
	x.sending, x.sent = false, true
	roundtrip.Restore(x.resp, x.request, req)
	opts.judge(&x.permit, x.request, x.resp, err)
	x.returned = true
	return x.resp, err
}

// judge ends the permit of an exchange.
func (o *ClientOptions) judge(permit *breaker.Permit, req *http.Request, resp *http.Response, err error) {
	if errors.Is(err, core.ErrRejected) { // by an inner plugin: no call was made
		permit.Done(core.Ignored)
		return
	}
	if o.Trip != nil && err == nil && resp != nil {
		if d := o.Trip(resp); d > 0 {
			permit.Trip(d)
			return
		}
	}
	classify := o.Classify
	if classify == nil {
		classify = client.Classify
	}
	switch outcome := classify(req, resp, err); {
	case outcome == core.Failure && err == nil && resp != nil && roundtrip.Limited(req.Context(), resp):
		permit.Done(core.Ignored) // the gate makes other requests wait, which an open breaker would reject
	case outcome == core.Failure:
		wait, _ := client.RetryAfter(resp)
		permit.Failed(wait)
	default:
		permit.Done(outcome)
	}
}

// A sending is a request on its way through the next transport.
type sending struct {
	permit        breaker.Permit
	request       *http.Request
	body          client.Replay
	resp          *http.Response
	sending, sent bool
	returned      bool
}

// end releases what RoundTrip does not return.
func (x *sending) end() {
	if x.sending || x.sent {
		x.body.Close()
	}
	if x.returned {
		return
	}
	outcome := core.Ignored
	if x.sending {
		if v := recover(); v != nil { // nil after a Goexit
			defer panic(v)
			if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				outcome = core.Failure
			}
		}
	}
	defer x.permit.Done(outcome)
	if x.sent { // a function of the user has panicked or ended the goroutine
		roundtrip.CloseResponse(x.resp)
	} else { // or the transport has, and might not have closed it
		roundtrip.CloseBody(x.request)
	}
}
