package breaker

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/request"
)

// clientRules are the settings that follow from a ClientConfig.
type clientRules struct {
	key           func(*http.Request) string
	classify      func(context.Context, *http.Response, error) core.Outcome
	maxRetryAfter time.Duration
}

func rulesOf(c *ClientConfig) clientRules {
	r := clientRules{key: c.Key, classify: c.Classify, maxRetryAfter: max(0, cmp.Or(c.MaxRetryAfter, defaultMaxRetryAfter))}
	if r.key == nil {
		r.key = client.Host
	}
	if r.classify == nil {
		r.classify = client.Classify
	}
	return r
}

type transport struct {
	client *Client
	next   http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

// RoundTrip sends req if its breaker admits it.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ctx := t.client, req.Context()
	current := c.life.Load()
	cfg, rules := &current.Config, &current.Settings
	call := c.overridden(ctx, ClientCall{Classify: rules.classify})
	if call.Disabled {
		return t.next.RoundTrip(req)
	}
	if call.Classify == nil {
		call.Classify = rules.classify
	}
	x := sending{body: client.NewReplay(req, -1), panicsFail: cfg.PanicsFail}
	defer x.end()
	if call.Key == "" {
		call.Key = rules.key(req)
	}
	var err error
	if x.permit, err = c.group.Get(call.Key).Acquire(ctx); err != nil {
		x.returned = true
		return refuse(cfg, req, err)
	}
	var started time.Time
	if _, bounded := ctx.Deadline(); bounded {
		started = time.Now() // only an outer limit needs it
	}
	attempt, _ := x.body.Attempt(ctx) // the first cannot fail
	x.resp, err = t.next.RoundTrip(attempt)
	x.sent = true
	request.Restore(x.resp, attempt, req)
	asked, trip, outcome := time.Duration(0), time.Duration(0), core.Ignored
	if !request.Rejected(x.resp, err) {
		asked = rules.retryAfter(x.resp)
		if cfg.Trip != nil && err == nil && x.resp != nil {
			trip = cfg.Trip(x.resp, asked)
		}
		if trip <= 0 {
			outcome = call.Classify(ctx, x.resp, explain(attempt, started, err))
		}
	}
	if cfg.JudgeBody && outcome == core.Success && hasBody(x.resp) {
		x.resp.Body = &judgedBody{ReadCloser: x.resp.Body, permit: x.permit, failed: failing(attempt, started, call)} //nolint:contextcheck // it is the request's
	} else {
		done(&x.permit, outcome, asked, trip)
	}
	x.returned = true
	return x.resp, err
}

// done ends the call of a permit. asked is the least time to open for.
func done(p *breaker.Permit, outcome core.Outcome, asked, trip time.Duration) {
	switch {
	case trip > 0:
		p.Trip(max(trip, asked))
	case outcome == core.Failure:
		p.Failed(asked)
	default:
		p.Done(outcome)
	}
}

// A sending is a request on its way through the next transport.
type sending struct {
	permit         breaker.Permit
	body           client.Replay
	resp           *http.Response
	panicsFail     bool
	sent, returned bool
}

// end releases everything if RoundTrip did not return.
func (x *sending) end() {
	if x.returned {
		return
	}
	outcome := core.Ignored
	if !x.sent && x.panicsFail {
		if v := recover(); v != nil { // nil after a Goexit
			defer panic(v)
			if v != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				outcome = core.Failure
			}
		}
	}
	defer x.permit.Done(outcome)
	switch {
	case !x.sent: // Key, a hook or the transport panicked or ended the goroutine, and might not have closed it
		x.body.Abort()
	case x.resp != nil && x.resp.Body != nil: // a function or hook of the user panicked or ended the goroutine
		_ = x.resp.Body.Close()
	}
}

// explain returns the error of an attempt for Classify.
func explain(req *http.Request, started time.Time, err error) error {
	if err == nil {
		return nil
	}
	return client.Explain(req, blame.Outer(req.Context(), started, 0, err))
}

// failing returns the judge of a body that cannot be read to its end.
func failing(req *http.Request, started time.Time, call ClientCall) func(error) core.Outcome {
	return func(err error) core.Outcome {
		return call.Classify(req.Context(), nil, explain(req, started, err))
	}
}

// refuse answers a request that was not admitted.
func refuse(cfg *ClientConfig, req *http.Request, err error) (*http.Response, error) {
	if cfg.SyntheticResponse {
		return client.Reject(req, http.StatusServiceUnavailable, err), nil
	}
	client.CloseBody(req)
	return nil, err
}

// retryAfter returns the pause that a response asks for, at most maxRetryAfter.
func (r *clientRules) retryAfter(resp *http.Response) time.Duration {
	if r.maxRetryAfter == 0 {
		return 0
	}
	wait, _ := client.RetryAfter(resp)
	return min(wait, r.maxRetryAfter)
}
