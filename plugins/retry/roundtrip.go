package retry

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/roundtrip"
)

const notRepeatable = "not_repeatable" // the reason of a [retry.Decision]

type transport struct {
	plugin *Client
	next   http.RoundTripper
}

// CloseIdleConnections passes on the call.
func (t *transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// RoundTrip sends req, and sends it again as the policy says.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	opts, cfg, err := t.plugin.under(ctx)
	switch {
	case err != nil:
		roundtrip.CloseBody(req)
		return nil, err
	case opts.Disabled:
		return t.next.RoundTrip(req)
	}
	buffer := opts.MaxBuffer
	if cfg.MaxAttempts == 1 {
		buffer = 0 // nothing will be sent again
	}
	r := runs.Get().(*run)
	r.state = state{opts: opts, cfg: cfg, next: t.next, caller: req, replay: *client.NewReplay(req, buffer)}
	if opts.Backoff != nil { // the context refers to the run and can outlive it, so the run is not reused
		return r.do(t.plugin.policy.Override(ctx, r.useBackoff), t.plugin.policy)
	}
	resp, err := r.do(ctx, t.plugin.policy)
	r.state = state{}
	runs.Put(r) // not after a panic
	return resp, err
}

// A run is one RoundTrip, and the functions that it passes on.
type run struct {
	state

	sends    func(context.Context) (*http.Response, error)
	judges   func(*http.Response, error) retry.Decision
	discards func()
}

// runs are kept, so that a request costs no allocation (TestFirstSuccessAllocatesNothing).
var runs = sync.Pool{New: func() any { //nolint:gochecknoglobals // see above
	r := &run{}
	r.sends, r.judges, r.discards = r.send, r.judge, r.discard
	return r
}}

type state struct {
	opts   *ClientOptions
	next   http.RoundTripper
	caller *http.Request
	replay client.Replay
	cfg    Config

	// of the present or last attempt
	req     *http.Request
	resp    *http.Response // until it is discarded
	err     error
	instead error // returned by CheckRetry, for the caller
	failed  bool  // err came before the attempt was made, and ends the call

	again    *http.Request // the next attempt, until it is sent
	overrun  bool          // there can be no next attempt: the previous one has read more of the body than is kept
	sent     bool          // a server can have received an attempt
	returned bool          // nothing has panicked
}

func (r *run) do(ctx context.Context, policy *Policy) (*http.Response, error) {
	defer r.close()
	_, err := retry.Loop(ctx, policy, r.sends, r.judges)
	r.returned = true
	switch resp := r.resp; {
	case r.instead != nil:
		roundtrip.CloseResponse(resp)
		return nil, r.instead
	case resp == nil && r.sent && client.NotSent(err):
		return nil, &blame.Error{Err: err, Outcome: core.Failure, Sent: true}
	case resp == nil:
		return nil, err
	}
	roundtrip.Restore(r.resp, r.req, r.caller)
	return r.resp, nil
}

// send makes an attempt.
func (r *run) send(ctx context.Context) (*http.Response, error) {
	switch {
	case r.overrun: // see discard
		return r.resp, r.err
	case r.req == nil:
		if r.req, r.err = r.replay.Attempt(ctx); r.err != nil {
			r.failed = true
			return nil, r.err
		}
	default:
		r.req, r.again = r.again.WithContext(ctx), nil // with the number of the attempt
		if r.err = r.modify(retry.Attempt(ctx)); r.err == nil && ctx.Err() != nil {
			r.err = context.Cause(ctx)
		}
		if r.err != nil {
			r.failed = true
			roundtrip.CloseBody(r.req)
			return nil, r.err
		}
	}
	switch r.resp, r.err = r.next.RoundTrip(r.req); {
	case r.resp == nil:
	case r.err != nil: // with both, http.Client takes the error
		roundtrip.CloseResponse(r.resp)
		r.resp = nil
	case r.resp.Request == nil:
		r.resp.Request = r.req // any transport should set it: functions of the user may use it
	}
	return r.resp, r.err
}

// modify calls ModifyRequest.
func (r *run) modify(attempt int) error {
	if r.opts.ModifyRequest == nil {
		return nil
	}
	body := r.req.Body
	err := r.opts.ModifyRequest(r.req, attempt)
	if body != r.req.Body && body != nil {
		if r.req.Body == nil || r.req.Body == http.NoBody {
			_ = body.Close() // it is not read
		} else {
			r.req.Body = &replacedBody{r.req.Body, body}
		}
	}
	return err
}

// A replacedBody may read the body that it replaces: its Close closes both.
type replacedBody struct {
	io.ReadCloser
	old io.Closer
}

func (b *replacedBody) Close() error {
	err := b.ReadCloser.Close()
	_ = b.old.Close() // it is no longer read
	return err
}

// judge decides about another attempt.
func (r *run) judge(resp *http.Response, err error) (d retry.Decision) {
	switch {
	case r.failed:
		return d
	case r.overrun:
		return retry.Decision{Retry: true, Not: notRepeatable}
	case err == nil && (resp == nil || resp.StatusCode < 400 && r.cfg.RetryResult == nil && r.opts.CheckRetry == nil):
		return d
	}
	d.Discard = r.discards
	d.After, _ = client.RetryAfter(resp)
	if errors.Is(err, core.ErrRejected) { // by an inner plugin
		d.Retry = true
		d.After, _ = core.RetryAfter(err)
		if !r.cfg.RetryRejected || blame.Hopeless(err) {
			d.Not = "rejected"
			return d
		}
	} else {
		r.sent = r.sent || !client.NotSent(err)
		if d.Retry, r.instead = r.asked(resp, err); err == nil && r.instead != nil {
			return retry.Decision{Retry: true, Not: "permanent"} // or the response would count as a success
		}
	}
	if d.Retry && (!r.repeatable(err) || r.replay.Ready() != nil) {
		d.Not = notRepeatable
	}
	return d
}

// repeatable reports whether the request can be sent again after an error, or a response.
func (r *run) repeatable(err error) bool {
	switch {
	case client.NotSent(err):
		return true
	case r.opts.Repeatable != nil:
		return r.opts.Repeatable(r.req)
	}
	return client.Idempotent(r.req)
}

// asked calls the functions of the user, or CheckRetry. instead is an error for the caller, to replace the result of the attempt.
func (r *run) asked(resp *http.Response, err error) (again bool, instead error) {
	decide := r.opts.CheckRetry
	if decide == nil {
		decide = CheckRetry
	}
	if err == nil {
		if r.opts.CheckRetry == nil && r.cfg.RetryResult != nil {
			return r.cfg.RetryResult(resp), nil
		}
		if again, instead = decide(r.req.Context(), resp, nil); again {
			instead = nil // it counts only together with false
		}
		return again, instead
	}
	explained := err
	if client.Classify(r.req, nil, err) == core.Ignored && !client.NotSent(err) { // such as for an upload that failed or was too slow
		explained = &blame.Error{Err: err}
	}
	if r.opts.CheckRetry == nil && r.cfg.RetryIf != nil {
		return !terminal(explained) && r.cfg.RetryIf(err), nil
	}
	wrapped := asClientError(r.req, explained)
	again, instead = decide(r.req.Context(), nil, wrapped)
	//nolint:errorlint // identical: the caller's http.Client will wrap it
	if again || instead == wrapped || identity.Comparable(explained) && instead == explained {
		instead = nil
	}
	return again, instead
}

// discard drains and closes the response before the wait, since its connection may be the only one. Before that, it makes the next request:
// the failed attempt may meanwhile have read more of a streamed body than is kept, and then its response is the last one.
func (r *run) discard() {
	var err error
	if r.again, err = r.replay.Attempt(r.caller.Context()); err != nil {
		r.overrun = true
		return
	}
	if r.resp != nil && r.resp.StatusCode == http.StatusRequestTimeout {
		roundtrip.CloseResponse(r.resp) // the server is about to close that connection
	} else {
		client.Discard(r.resp)
	}
	r.resp = nil
}

// useBackoff is an Override for the Backoff of the options.
func (r *run) useBackoff(c *Config) {
	of, _ := c.Backoff.(backoff.Exponential)
	least := cmp.Or(of.Delay, 500*time.Millisecond)
	most := cmp.Or(of.Max, max(time.Minute, least))
	c.Backoff = backoff.Func(func(n int, _ time.Duration) time.Duration {
		return r.opts.Backoff(least, most, n-1, r.resp)
	})
}

// close ends a run, even after a panic of the transport or of a function of the user.
func (r *run) close() {
	roundtrip.CloseBody(r.again) // it was not sent
	r.replay.Close()
	if !r.returned {
		roundtrip.CloseBody(r.req) // the transport or ModifyRequest had it
		roundtrip.CloseResponse(r.resp)
	}
}
