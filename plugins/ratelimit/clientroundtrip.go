package ratelimit

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/h2err"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/roundtrip"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/internal/waitq"
)

type clientTransport struct {
	*Client
	next http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *clientTransport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// notYet is how long a key is held if a probe fails and its response does not say how long to wait. core/cooldown may hold it for longer.
const notYet = time.Second

// RoundTrip waits until req may be sent, sends it, and applies the Feedback to the response.
func (t *clientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var permit cooldown.Permit
	var resp *http.Response
	body, attempt := client.NewReplay(req, 0), req
	sent, returned := false, false
	defer func() {
		defer permit.Done(core.Ignored) // also if a Close panics
		switch {
		case !sent: // or the transport panics, and might not have closed it
			roundtrip.CloseBody(attempt)
		case !returned: // a function of the user's panics
			roundtrip.CloseResponse(resp)
		}
		if attempt != req {
			body.Close()
		}
	}()
	cfg, disabled, err := t.settings(req)
	switch {
	case disabled:
		sent, returned = true, true
		return t.next.RoundTrip(req)
	case err != nil:
		return nil, &blame.Error{Err: err, NotSent: true}
	}
	key := keyOf(cfg, req)
	giveBack, err := t.admit(ctx, cfg, key, &permit)
	switch {
	case errors.Is(err, ratelimit.ErrStore): // no rejection, but nothing was sent
		return nil, &blame.Error{Err: err, NotSent: true}
	case err != nil:
		return nil, err
	}
	attempt, _ = body.Attempt(ctx) // the first cannot fail
	resp, err = t.next.RoundTrip(attempt)
	sent = true
	roundtrip.Restore(resp, attempt, req)
	outcome := core.Ignored
	if errors.Is(err, core.ErrRejected) {
		giveBack(ctx)
	} else {
		outcome = learn(cfg, &permit, resp, err)
	}
	if permit.Probe() && outcome == core.Ignored && client.Classify(attempt, resp, err) == core.Failure {
		permit.Failed(notYet)
	} else {
		permit.Done(outcome)
	}
	returned = true
	return resp, err
}

// settings returns the config for a request, with its overrides.
func (c *Client) settings(req *http.Request) (cfg *ClientConfig, disabled bool, err error) {
	cfg = &c.life.Load().Config
	f := override.From[Client, ClientCall](req.Context(), c)
	if f == nil {
		return cfg, false, nil
	}
	call := ClientCall{Key: cfg.Key}
	if f(&call); call.Disabled {
		return nil, true, nil
	}
	check := validate.Of("ratelimit.ClientCall")
	check.That(cfg.Limiter == nil || call.Key == nil, "Key", "set", "must be nil with a Limiter, which knows no keys")
	changed := *cfg
	changed.Key = call.Key
	return &changed, false, check.Err()
}

// admit waits until the key is not held and the turn of the request has come. giveBack
// returns the turn unused.
func (t *clientTransport) admit(ctx context.Context, cfg *ClientConfig, key string, permit *cooldown.Permit) (giveBack func(context.Context), err error) {
	own, start := ctx, time.Now()
	cancel := func() {}
	defer func() { cancel() }()
	bounded := false
	bound := func() { // all waits together, now that there are several
		if most := waitq.Longest(cfg.MaxWait); !bounded && most != math.MaxInt64 {
			ctx, cancel = waitq.Bound(own, start.Add(most), &cooldown.HeldError{Name: t.Name(), Key: key}) //nolint:fatcontext // once
			bounded = true
		}
	}
	for {
		if *permit, err = t.gate.Acquire(ctx, key); err != nil {
			return nil, err
		}
		if permit.Waited() > 0 {
			bound()
		}
		if giveBack, err = t.take(ctx, cfg, key); err != nil {
			return nil, err
		}
		if permit.Ready() {
			return giveBack, nil
		}
		giveBack(own) // a response has come that asks to wait
		permit.Done(core.Ignored)
		bound()
	}
}

// take waits for the turn of a request.
func (t *clientTransport) take(ctx context.Context, cfg *ClientConfig, key string) (giveBack func(context.Context), err error) {
	if t.limiter == nil {
		return t.takeRate(ctx, cfg)
	}
	result, err := t.limiter.Wait(ctx, key, 1)
	return func(ctx context.Context) {
		_ = t.limiter.Refund(ctx, result) // if the store fails, it comes back in its time
	}, err
}

// learn holds the key if the response asks for it. The result is how the request went for
// the key: Ignored if only the health of the server is concerned.
func learn(cfg *ClientConfig, permit *cooldown.Permit, resp *http.Response, err error) core.Outcome {
	if err != nil || resp == nil {
		if h2err.Throttled(err) { // as a 429
			return core.Failure
		}
		return core.Ignored
	}
	limited := throttled(resp)
	if cfg.Feedback != nil {
		permit.Hold(cfg.Feedback(resp, time.Now()))
	} else if limited = limited || asksToWait(resp); limited || cfg.Key != nil { // otherwise a limit of a part would hold the whole host
		permit.Hold(DefaultFeedback(resp, time.Now()))
	}
	switch {
	case limited:
		return core.Failure
	case resp.StatusCode >= http.StatusInternalServerError:
		return core.Ignored
	}
	return core.Success
}
