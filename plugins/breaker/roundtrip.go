package breaker

import (
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
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
	call := c.call(ctx)
	if call.Disabled {
		return t.next.RoundTrip(req)
	}
	key, classify := call.Key, call.Classify
	if key == "" {
		key = c.key(req)
	}
	if classify == nil {
		classify = c.classify
	}
	permit, err := c.group.Get(key).Acquire(ctx)
	if err != nil {
		if c.cfg.SyntheticResponse {
			return client.Reject(req, http.StatusServiceUnavailable, err), nil
		}
		client.CloseBody(req)
		return nil, err
	}
	body := client.NewReplay(req, -1)
	sent, judged := false, false
	defer func() {
		if judged {
			return
		}
		permit.Done(core.Ignored)
		switch {
		case !sent: // the transport panics, and may or may not have closed it
			body.Abort()
		case resp != nil && resp.Body != nil: // Classify panics, so nobody gets the response
			_ = resp.Body.Close()
		}
	}()
	req, _ = body.Attempt(ctx) // the first cannot fail
	resp, err = t.next.RoundTrip(req)
	sent = true
	outcome := classify(ctx, resp, err)
	judged = true
	if outcome == core.Failure {
		permit.Failed(c.retryAfter(resp))
	} else {
		permit.Done(outcome)
	}
	return resp, err
}

// retryAfter is how long a failing server asks to be left alone.
func (c *Client) retryAfter(resp *http.Response) time.Duration {
	if c.maxRetryAfter == 0 || resp == nil || len(resp.Header["Retry-After"]) == 0 {
		return 0
	}
	wait, _ := client.RetryAfter(resp, time.Now())
	return min(wait, c.maxRetryAfter)
}
