package breaker

import (
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
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
	call := overridden[Call](ctx, overrideKey[Client]{c})
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
	req, _ = body.Attempt(ctx) // the first cannot fail
	resp, err = t.next.RoundTrip(req)
	sent = true
	asked, trip, outcome := rules.retryAfter(resp), time.Duration(0), core.Failure
	rejected := errors.Is(err, core.ErrRejected) || resp != nil && client.Rejected(resp) != nil // further in: no call was made
	if rules.cfg.Trip != nil && err == nil && resp != nil && !rejected {
		trip = rules.cfg.Trip(resp, asked)
	}
	if trip <= 0 && (rejected || call.Failed == nil || !call.Failed(resp, err)) {
		outcome = classify(ctx, resp, err)
	}
	switch {
	case rules.cfg.JudgeBody && outcome == core.Success && hasBody(resp):
		resp.Body = &judgedBody{ReadCloser: resp.Body, permit: permit, failed: func(err error) core.Outcome {
			if call.Failed != nil && call.Failed(nil, err) {
				return core.Failure
			}
			return classify(ctx, nil, err)
		}}
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
