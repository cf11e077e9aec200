package timeout

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/internal/request"
)

type transport struct {
	client *Client
	next   http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

// RoundTrip sends req under the limit.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	caller := req.Context()
	cfg, cause, err := t.client.settings(caller)
	switch {
	case err != nil:
		client.CloseBody(req)
		return nil, err
	case cfg.Disabled:
		return t.next.RoundTrip(req)
	}
	var started time.Time // zero without a limit
	none := cause.Limit < 0
	if !none {
		started = time.Now()
		deadline, ok := caller.Deadline()
		none = ok && deadline.Sub(started) <= cause.Limit
	}
	var resp *http.Response
	if none && cfg.BodyIdle == 0 && cfg.ResponseHeader == 0 {
		var sent *http.Request
		resp, sent, err = send(caller, t.next, req)
		request.Restore(resp, sent, req)
		err = t.client.finish(caller, req, err)
	} else {
		x := &exchange{client: t.client, req: req, cutsBody: t.client.cutsBody(cfg) && !none, idle: wait{limit: cfg.BodyIdle}}
		x.start(cfg, cause, started, none) //nolint:contextcheck // its parent is that of req
		resp, err = x.send(t.next)         //nolint:contextcheck // likewise
		resp, err = x.headers(resp, err)   //nolint:contextcheck // likewise
	}
	return resp, err
}

// send sends a copy of req under ctx. If next panics, the body of req is closed.
func send(ctx context.Context, next http.RoundTripper, req *http.Request) (resp *http.Response, sent *http.Request, err error) {
	body := client.NewReplay(req, -1)
	returned := false
	defer func() {
		if !returned {
			body.Abort()
		}
	}()
	sent, _ = body.Attempt(ctx) // the first cannot fail
	resp, err = next.RoundTrip(sent)
	returned = true
	return resp, sent, err
}

// An exchange is one RoundTrip and the reading of its body.
type exchange struct {
	client   *Client
	req      *http.Request // the caller's
	ctx      limited
	timer    *time.Timer // nil if Limit does not apply
	cutsBody bool
	header   *wait // for the headers; nil without a limit
	idle     wait  // of each read of the body

	body io.ReadCloser // as it came
	once sync.Once     // for its end
	err  error         // of a limit, for further reads; set by once
}

// start begins the limits, of which Limit does not apply if none.
func (x *exchange) start(cfg *Config, cause *Error, started time.Time, none bool) {
	parent := x.req.Context()
	if cfg.ResponseHeader > 0 {
		x.header = &wait{limit: cfg.ResponseHeader, strike: func() { x.ctx.expire(x.late(cfg.ResponseHeader)) }}
		parent = x.header.trace(parent)
	}
	x.ctx.start(parent, cause, started)
	switch {
	case !none:
		x.timer = time.AfterFunc(cause.Limit, func() { x.ctx.expire(nil) })
	case cfg.ResponseHeader > 0:
		x.ctx.deadline = time.Time{}
	default:
		x.ctx.lift()
	}
}

// send sends the request.
func (x *exchange) send(next http.RoundTripper) (*http.Response, error) {
	returned := false
	defer func() {
		if !returned { // the transport panics
			x.stop()
		}
	}()
	resp, sent, err := send(&x.ctx, next, x.req)
	returned = true
	x.header.end(true)
	request.Outlive(resp, sent, x.req, limitedKey{})
	return resp, err
}

// late returns the error of an exchange of which one part took longer than its own limit.
func (x *exchange) late(limit time.Duration) *Error {
	return &Error{Name: x.client.Name(), Limit: limit}
}

// stop ends the exchange.
func (x *exchange) stop() {
	x.header.end(true)
	x.stopTimer()
	x.ctx.release()
}

func (x *exchange) stopTimer() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// headers ends the limit, or the exchange, when RoundTrip has returned.
func (x *exchange) headers(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp == nil {
		x.ctx.lift()
		err = x.finish(err)
		x.stop()
		return resp, err
	}
	writer, isWriter := resp.Body.(io.Writer)
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == nil || resp.Body == http.NoBody {
		x.cutsBody, x.idle.limit = false, 0
	}
	if isWriter {
		x.idle.limit = 0
	}
	if !x.cutsBody {
		if !x.ctx.lift() { // the context has ended, so the body cannot be read
			if resp.Body != nil {
				_ = resp.Body.Close() // the response is not returned
			}
			err = x.finish(x.ctx.cause)
			x.stop()
			return nil, err
		}
		x.stopTimer()
		if x.idle.limit == 0 {
			_ = x.finish(nil) // stays nil
		}
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		x.stop()
		return resp, nil
	}
	x.body = resp.Body
	if x.idle.limit > 0 {
		x.idle.strike = func() { x.ctx.strike(x.late(x.idle.limit)) }
	}
	if isWriter {
		resp.Body = &request.Conn{Reader: x.body, Writer: writer, Closer: (*body)(x)} // it ends when it is closed
	} else {
		resp.Body = (*body)(x)
	}
	return resp, nil
}

func (x *exchange) finish(err error) error { return x.client.finish(&x.ctx, x.req, err) }

// finish counts the end of req.
func (c *Client) finish(limited context.Context, req *http.Request, err error) error {
	if err != nil && req.Cancel != nil { //nolint:staticcheck // deprecated, and still in use
		return c.finishCanceled(limited, req, err)
	}
	return c.timeout.Finish(req.Context(), limited, err)
}

// finishCanceled is finish for a request that its Cancel channel may have ended.
func (c *Client) finishCanceled(limited context.Context, req *http.Request, err error) error {
	caller := request.Context(req)
	defer request.Release(caller) //nolint:contextcheck // of the request
	return c.timeout.Finish(caller, limited, err)
}

// ended ends the exchange, once, after its body has ended with err, or was closed with a
// nil err. It returns the error for further reads.
func (x *exchange) ended(err error) error {
	x.once.Do(func() {
		if intime := x.ctx.lift(); x.cutsBody || x.idle.limit > 0 {
			switch {
			case err == io.EOF: //nolint:errorlint // as io.Reader has it
				_ = x.finish(nil)
			case err != nil:
				x.err = x.finish(err)
			case intime:
				_ = x.finish(nil)
			default:
				_ = x.finish(x.ctx.cause) // closed after the limit, without a read
			}
		}
		x.stop()
	})
	if x.err != nil && err != nil && !errors.Is(err, io.EOF) {
		return x.err
	}
	return err
}

// body is an exchange as the body of its response.
type body exchange

func (b *body) Read(p []byte) (int, error) {
	b.idle.begin()
	n, err := b.body.Read(p)
	b.idle.end(false)
	if err != nil {
		err = (*exchange)(b).ended(err)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.body.Close()
	_ = (*exchange)(b).ended(nil) // stays nil
	return err
}
