package retry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/identity"
	"github.com/gresil/gresil/internal/request"
)

var errNoResponse = errors.New("retry: the transport returned neither a response nor an error")

type transport struct {
	plugin *Plugin
	next   http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

// RoundTrip sends req, and sends it again according to the Config.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r := run{next: t.next}
	cfg, err := t.plugin.begin(req.Context(), &r.call)
	switch {
	case err != nil:
		client.CloseBody(req)
		return nil, err
	case cfg.Disabled:
		return t.next.RoundTrip(req)
	}
	r.cfg, r.caller, r.replay = cfg, req, client.NewReplay(req, cfg.buffer())
	var resp *http.Response
	if req.Cancel == nil { //nolint:staticcheck // deprecated, and still in use
		resp, err = r.do(req.Context())
	} else {
		resp, err = r.doUntilCancel() //nolint:contextcheck // it is the request's
	}
	if cfg.Map != nil {
		return mapped(cfg, resp, err)
	}
	return resp, err
}

// mapped calls Map. If that panics, the response is closed.
func mapped(cfg *Config, resp *http.Response, err error) (*http.Response, error) {
	returned := false
	defer func() {
		if !returned {
			closeBody(resp)
		}
	}()
	to, err := cfg.Map(resp, err)
	returned = true
	return to, err
}

// A run is one RoundTrip.
type run struct {
	cfg    *Config
	next   http.RoundTripper
	caller *http.Request
	call   retry.Call
	replay client.Replay

	// of the attempt that has ended
	req     *http.Request
	resp    *http.Response // until it is discarded or returned
	err     error
	instead error // of CheckRetry, for the caller
	reason  error // why it must not be sent again

	made bool // an earlier attempt was no rejection
}

func (r *run) do(ctx context.Context) (*http.Response, error) {
	returned := false
	defer func() {
		if returned {
			r.replay.Close()
			return
		}
		r.replay.Abort() // the transport, or a function of the user, panicked
		if r.req != nil {
			client.CloseBody(r.req) // ModifyRequest may have replaced it
		}
		closeBody(r.resp)
	}()
	resp, err := r.attempts(ctx)
	returned = true
	return resp, err
}

// doUntilCancel is do for a request with a Cancel channel.
func (r *run) doUntilCancel() (*http.Response, error) {
	ctx := request.Context(r.caller)
	defer request.Release(ctx)
	return r.do(ctx)
}

func (r *run) attempts(ctx context.Context) (*http.Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	own := r.caller.Context()                         // without Cancel, which the transport observes itself
	req, err := r.replay.Attempt(r.call.Context(own)) //nolint:contextcheck // ctx is made of it
	if err != nil {
		return nil, err
	}
	for {
		r.send(req)
		verdict := r.call.Next(ctx, r.judge(ctx))
		if verdict != retry.Again {
			return r.result(verdict) //nolint:contextcheck // the request of the response has the caller's
		}
		r.made = r.made || r.rejection() == nil
		// The next request comes first: without it, this response is the last one.
		if req, err = r.replay.Attempt(r.call.Context(own)); err != nil { //nolint:contextcheck // likewise
			return r.overtaken(ctx, err)
		}
		r.discard(ctx)
		if err = r.call.Wait(ctx); err == nil {
			r.req = req // its body is closed if ModifyRequest, or a hook, panics
			if req, err = r.modify(ctx, req); err != nil {
				r.req = req
				r.call.Next(ctx, retry.Attempt{Err: err, Suppress: retry.Rejected}) // ends the retry: nothing was sent
			}
		}
		if err != nil {
			client.CloseBody(req)
			return nil, err
		}
	}
}

// overtaken ends the call if the last attempt, after Next returned Again, read more of a
// streamed body than is kept. That attempt is then counted twice; otherwise the end of
// the call would not be reported.
func (r *run) overtaken(ctx context.Context, err error) (*http.Response, error) {
	r.reason = err
	a := r.attempt()
	a.Err, a.Retryable, a.Suppress = r.failure(), true, retry.NotReplayable
	return r.result(r.call.Next(ctx, a)) //nolint:contextcheck // the request of the response has the caller's
}

func (r *run) send(req *http.Request) {
	r.req, r.instead, r.reason = req, nil, nil
	r.resp, r.err = r.next.RoundTrip(req) //nolint:bodyclose // result returns it, or discard closes it
	switch {
	case r.err != nil && r.resp != nil: // no transport should
		closeBody(r.resp)
		r.resp = nil
	case r.err == nil && r.resp == nil:
		r.err = errNoResponse
	case r.resp != nil && r.resp.Request == nil && (r.cfg.RetryResponse != nil || r.cfg.CheckRetry != nil):
		r.resp.Request = req // as any transport should: these functions may use it
	}
}

// judge describes the attempt for core/retry.
func (r *run) judge(ctx context.Context) retry.Attempt {
	var floor time.Duration
	if r.err != nil || r.resp.StatusCode >= 400 || r.cfg.RetryResponse != nil || r.cfg.CheckRetry != nil {
		r.call.EndedAt(time.Now()) // before functions of the user run
		floor, _ = client.RetryAfter(r.resp)
	}
	a, rejection := r.attempt(), r.rejection()
	if ctx.Err() != nil {
		switch {
		case rejection != nil:
			a.Err, a.Suppress = r.failure(), retry.Rejected
		case client.Classify(ctx, r.resp, client.Explain(r.req, r.err)) == core.Failure:
			a.Err = r.failure()
		}
		return a
	}
	if rejection == nil {
		var again bool
		if again, r.instead = r.check(r.req.Context()); !again { //nolint:contextcheck // derived from ctx, with the number of the attempt
			if r.instead != nil {
				a.Err = r.instead
			}
			return a
		}
	}
	a.Retryable, a.Err = true, r.failure()
	a.Floor, a.Suppress = r.hurdles(rejection, floor)
	return a
}

func (r *run) attempt() retry.Attempt {
	a := retry.Attempt{Err: r.err}
	if r.resp != nil {
		a.Result = r.resp
	}
	return a
}

// check reports whether the attempt is retried. The error, if any, is for the caller,
// instead of the attempt's result. ctx is the attempt's, with its number.
func (r *run) check(ctx context.Context) (again bool, instead error) {
	decide := r.cfg.CheckRetry
	switch {
	case decide != nil:
	case r.err == nil && r.cfg.RetryResponse != nil:
		return r.cfg.RetryResponse(r.resp), nil
	default:
		decide = DefaultCheckRetry
	}
	if r.err == nil {
		if again, instead = decide(ctx, r.resp, nil); again {
			instead = nil // it counts together with false only
		}
		return again, instead
	}
	if request.Canceled(r.req) {
		return false, nil
	}
	explained := client.Explain(r.req, r.err)
	wrapped := asClientError(r.req, explained)
	again, instead = decide(ctx, nil, wrapped)
	if again || instead == wrapped || identity.Comparable(explained) && instead == explained { //nolint:errorlint // identical: the caller's http.Client will wrap it
		instead = nil
	}
	if again && r.cfg.CheckRetry == nil && r.cfg.RetryIf != nil {
		again = r.cfg.RetryIf(r.err)
	}
	return again, instead
}

// hurdles returns the shortest wait before the next attempt, and the reason against
// making it. told is the wait that the response asks for.
func (r *run) hurdles(rejection error, told time.Duration) (floor time.Duration, suppress retry.Verdict) {
	if rejection != nil && !r.cfg.RetryRejected {
		return 0, retry.Rejected
	}
	if rejection == nil && !r.cfg.repeatable(r.req, r.err) {
		r.reason = ErrMaybeProcessed
		return 0, retry.NotReplayable
	}
	if r.call.Info().Retry+1 < r.cfg.maxAttempts() { // otherwise no further body is needed
		if r.reason = r.replay.Prepare(); r.reason != nil {
			return 0, retry.NotReplayable
		}
	}
	if rejection != nil {
		if blame.Hopeless(rejection) {
			return 0, retry.Rejected
		}
		told, _ = core.RetryAfter(rejection)
	}
	if told > r.cfg.maxRetryAfter() {
		return told, retry.RetryAfterTooLong
	}
	return told, retry.Done
}

// rejection returns the error of an inner mechanism that made no call, or nil.
func (r *run) rejection() error {
	switch {
	case r.resp != nil && r.resp.StatusCode >= 400:
		return client.Rejected(r.resp)
	case r.resp == nil && errors.Is(r.err, core.ErrRejected):
		return r.err
	}
	return nil
}

// failure returns the error of the attempt, or a StatusError for its response.
func (r *run) failure() error {
	if r.resp != nil {
		return &StatusError{StatusCode: r.resp.StatusCode, rejection: r.rejection()}
	}
	return r.err
}

// result returns the response or error for the caller after the last attempt.
func (r *run) result(verdict retry.Verdict) (*http.Response, error) {
	switch {
	case r.instead != nil && verdict == retry.Ignored:
		closeBody(r.resp)
		return nil, r.instead
	case r.resp != nil:
		if r.resp.Request != r.caller {
			r.restore()
		}
		return r.resp, nil
	case verdict == retry.NotReplayable:
		return nil, &notRepeatedError{cmp.Or(r.req.Method, http.MethodGet), r.reason, r.err}
	case r.call.Info().Retry > 0 && errors.Is(r.err, core.ErrRejected):
		return nil, r.call.Error(r.err, nil) // an attempt was made, so it must not match ErrRejected
	}
	return nil, r.err
}

// restore sets resp.Request to the caller's request, as net/http does after its own
// retries. After ModifyRequest it is the modified copy, with the caller's context.
func (r *run) restore() {
	switch sent := r.resp.Request; {
	case r.made && client.Rejected(r.resp) != nil: // the mark means that no attempt was made
		r.resp.Request = r.caller
	case sent != r.req:
	case r.cfg.ModifyRequest != nil && r.call.Info().Retry > 0:
		r.resp.Request = sent.WithContext(r.caller.Context())
	default:
		r.resp.Request = r.caller
	}
}

// discard drains and closes the response before the wait, since its connection may be
// the only one. It takes no longer than the wait. Without a wait, it takes at most half
// of the time until MaxElapsed or the deadline of ctx.
func (r *run) discard(ctx context.Context) {
	if r.resp == nil {
		return
	}
	limit := r.cfg.Drain
	if r.resp.StatusCode == http.StatusRequestTimeout {
		limit.Bytes = -1 // the server is about to close that connection
	}
	limit.Time = cmp.Or(limit.Time, request.DrainTime)
	if wait := r.call.Left(); wait > 0 {
		limit.Time = min(limit.Time, wait)
	} else {
		if r.cfg.MaxElapsed > 0 {
			limit.Time = min(limit.Time, (r.cfg.MaxElapsed-r.call.Info().Elapsed)/2)
		}
		if deadline, ok := ctx.Deadline(); ok {
			limit.Time = min(limit.Time, time.Until(deadline)/2)
		}
		limit.Time = cmp.Or(limit.Time, -1) // zero is the default
	}
	client.Discard(r.resp, limit) //nolint:contextcheck // it uses the request's
	r.resp = nil
}

func closeBody(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // its error means nothing to the caller
	}
}
