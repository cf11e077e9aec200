package timeout

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/deadline"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/roundtrip"
)

type transport struct {
	client *Client
	next   http.RoundTripper
}

// CloseIdleConnections passes on the call.
func (t *transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// RoundTrip sends req within the limit.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	caller := req.Context()
	if override.Apply(caller, t.client, &t.client.opts).Disabled {
		return t.next.RoundTrip(req)
	}
	limit := t.client.timeout.Limit(caller)
	switch {
	case !t.client.opts.PerAttempt:
		return t.total(req, limit)
	case limit.Nearer(caller):
		resp, err := t.next.RoundTrip(req)
		return resp, t.client.timeout.Count(caller, caller, limit, err)
	}
	return t.attempt(req, limit)
}

// attempt sends req, and lifts the limit when the headers of the response have arrived.
func (t *transport) attempt(req *http.Request, limit *deadline.Limit) (resp *http.Response, err error) {
	caller := req.Context()
	ctx, cancel := context.WithCancelCause(caller)
	timer := time.AfterFunc(limit.Time, func() { cancel(limit.Cause) })
	defer func() {
		if resp == nil { // also if the transport panics
			timer.Stop()
			cancel(nil)
		}
	}()
	sent := req.WithContext(ctx)
	resp, err = t.next.RoundTrip(sent)
	if !timer.Stop() {
		cancel(limit.Cause) // the function of the timer may not have done so yet
		if err == nil {
			err = context.Cause(ctx) // the body could not be read
		}
	}
	if err = t.client.timeout.Count(caller, ctx, limit, err); err != nil || resp == nil {
		roundtrip.CloseResponse(resp)
		return nil, err
	}
	roundtrip.Restore(resp, sent, req) // the context of sent ends with the body
	if _, upgraded := resp.Body.(io.Writer); upgraded || resp.Body == nil || resp.Body == http.NoBody {
		client.OnBodyEnd(resp, func() { cancel(nil) })
	} else {
		resp.Body = &attemptBody{resp.Body, cancel} // as OnBodyEnd, in one allocation: BenchmarkAttempt
	}
	return resp, nil
}

// An attemptBody releases the context of an attempt when it ends.
type attemptBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *attemptBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel(nil)
	}
	return n, err
}

func (b *attemptBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// total sends req, and keeps the limit until the end of the body.
func (t *transport) total(req *http.Request, limit *deadline.Limit) (resp *http.Response, err error) {
	ctx, cancel := limit.Context(req.Context())
	defer func() {
		if resp == nil { // also if the transport panics
			cancel()
		}
	}()
	x := &exchange{timeout: t.client.timeout, limit: limit, caller: req.Context(), limited: ctx, cancel: cancel}
	sent := req.WithContext(ctx)
	resp, err = t.next.RoundTrip(sent)
	if err != nil || resp == nil {
		return resp, x.end(err)
	}
	roundtrip.Restore(resp, sent, req) // the context of sent ends with the body
	if _, upgraded := resp.Body.(io.Writer); upgraded || resp.Body == nil || resp.Body == http.NoBody {
		client.OnBodyEnd(resp, func() { _ = x.end(nil) }) // stays nil: an upgraded connection is not limited
		return resp, nil
	}
	x.ReadCloser, resp.Body = resp.Body, x
	return resp, nil
}

// An exchange is a request with a total limit, until its body is read. It is the body of its response: it ends when that is read to its
// end, fails, or is closed.
type exchange struct {
	io.ReadCloser
	timeout         *mechanism
	limit           *deadline.Limit
	caller, limited context.Context //nolint:containedctx // of the request
	cancel          context.CancelFunc
	once            sync.Once
	err             error // for further reads
}

// end counts the exchange, once, and returns the error for the caller.
func (x *exchange) end(err error) error {
	x.once.Do(func() {
		x.err = x.timeout.Count(x.caller, x.limited, x.limit, err)
		x.cancel()
	})
	return x.err
}

func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.ReadCloser.Read(p)
	switch {
	case err == io.EOF: //nolint:errorlint // as io.Reader has it
		_ = x.end(nil) // stays nil
	case err != nil:
		if ended := x.end(err); ended != nil {
			err = ended
		}
	}
	return n, err
}

// Close ends the exchange as a success, unless the limit was exceeded while nobody was reading.
func (x *exchange) Close() error {
	err := x.ReadCloser.Close()
	var late error
	if x.limit.Struck(x.caller, x.limited) {
		late = x.limit.Cause
	}
	_ = x.end(late) // for Stats
	return err
}
