package breaker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/request"
)

type transport struct {
	client *Client
	next   http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

// RoundTrip sends req if its breaker admits it.
func (t *transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	c, ctx := t.client, req.Context()
	rules := c.current.Load()
	call := overridden[ClientCall](ctx, overrideKey[Client]{c})
	if call.Disabled {
		return t.next.RoundTrip(req)
	}
	key, classify := call.Key, call.Classify
	if key == "" {
		key = keyOf(rules, req)
	}
	if classify == nil {
		classify = rules.classify
	}
	permit, err := c.acquire(req, key)
	if err != nil {
		if rules.cfg.SyntheticResponse {
			return client.Reject(req, http.StatusServiceUnavailable, err), nil
		}
		client.CloseBody(req)
		return nil, err
	}
	var started time.Time
	if _, bounded := ctx.Deadline(); bounded {
		started = time.Now() // only an outer limit needs it
	}
	body := client.NewReplay(req, -1)
	sent, returned := false, false
	defer func() {
		if returned {
			return
		}
		defer permit.Done(core.Ignored)
		switch {
		case !sent: // the transport panics, and may or may not have closed it
			body.Abort()
		case resp != nil && resp.Body != nil: // a function or hook of the user panics or ends the goroutine
			_ = resp.Body.Close()
		}
	}()
	attempt, _ := body.Attempt(ctx) // the first cannot fail
	resp, err = t.next.RoundTrip(attempt)
	sent = true
	request.Restore(resp, attempt, req)
	asked, trip, outcome := rules.retryAfter(resp), time.Duration(0), core.Failure
	rejected := errors.Is(err, core.ErrRejected) || resp != nil && client.Rejected(resp) != nil // by an inner plugin: no call was made
	if rules.cfg.Trip != nil && err == nil && resp != nil && !rejected {
		trip = rules.cfg.Trip(resp, asked)
	}
	if trip <= 0 && (rejected || call.Failed == nil || !call.Failed(resp, err)) {
		outcome = classify(ctx, resp, explain(attempt, started, err))
	}
	switch {
	case rules.cfg.JudgeBody && outcome == core.Success && hasBody(resp):
		resp.Body = &judgedBody{ReadCloser: resp.Body, permit: permit, failed: failing(attempt, started, call, classify)} //nolint:contextcheck // it is the request's
	case trip > 0:
		permit.Trip(max(trip, asked)) // what the server asks for is the least
	case outcome == core.Failure:
		permit.Failed(asked)
	default:
		permit.Done(outcome)
	}
	returned = true
	return resp, err
}

// explain returns the error of an attempt for Classify.
func explain(req *http.Request, started time.Time, err error) error {
	if err == nil {
		return nil
	}
	return client.Explain(req, blame.Outer(req.Context(), started, 0, err))
}

// failing returns the judge of a body that cannot be read to its end.
func failing(req *http.Request, started time.Time, call ClientCall, classify func(context.Context, *http.Response, error) core.Outcome) func(error) core.Outcome {
	return func(err error) core.Outcome {
		if call.Failed != nil && call.Failed(nil, err) {
			return core.Failure
		}
		return classify(req.Context(), nil, explain(req, started, err))
	}
}

// acquire admits req. If a hook ends the goroutine, it closes the body of req.
func (c *Client) acquire(req *http.Request, key string) (breaker.Permit, error) {
	returned := false
	defer func() {
		if !returned {
			client.CloseBody(req)
		}
	}()
	permit, err := c.group.Get(key).Acquire(req.Context())
	returned = true
	return permit, err
}

// retryAfter is how long a response asks to be left alone, at most maxRetryAfter.
func (c *clientRules) retryAfter(resp *http.Response) time.Duration {
	if c.maxRetryAfter == 0 || resp == nil || len(resp.Header["Retry-After"]) == 0 {
		return 0
	}
	wait, _ := client.RetryAfter(resp, time.Now())
	return min(wait, c.maxRetryAfter)
}

// keyOf asks Key. Where that panics, the request is not sent.
func keyOf(rules *clientRules, req *http.Request) (key string) {
	returned := false
	defer func() {
		if !returned {
			client.CloseBody(req)
		}
	}()
	key = rules.key(req)
	returned = true
	return key
}
