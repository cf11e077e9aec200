package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/roundtrip"
)

// Transport returns a transport whose requests pass the gate. A refused request is sent again whatever its method, as a
// vendor that refuses has not executed it; with a body that was read it needs GetBody. A request that a pause overtakes
// before it is sent gets its body from GetBody too, if it has one. When Config.MaxAttempts are used up, or the next
// attempt would have to wait too long, the last response is returned unchanged. The error of a request that was not sent
// matches core.ErrRejected. If next is nil, it is a clone of http.DefaultTransport.
//
// The first request, or call of Do, under the context that [Gate.Do], [Do] or [Stream] pass to a function uses the
// permit that the function was given. If it has further keys, such as its host, it passes the gate once more, with all
// of its keys and ahead of later calls. It is not sent again here: Do repeats the function. Further requests are calls
// of their own.
func (g *Gate) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{gate: g, next: next}
}

type transport struct {
	gate   *Gate
	next   http.RoundTripper
	traced atomic.Bool // next calls the hooks of httptrace
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// RoundTrip sends req when the vendor permits it, and sends it again while it is refused.
//
//nolint:contextcheck // the contexts are those of req
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := &sending{transport: t, req: req, ctx: req.Context()}
	whole := req
	if len(req.Trailer) > 0 { // which the caller may fill while the body is read: only a body that was not read is sent again
		whole = req.WithContext(s.ctx)
		whole.Trailer, whole.GetBody = nil, nil
	}
	s.bodies = client.NewReplay(whole, 0)
	defer func() {
		s.bodies.Close()
		roundtrip.CloseBody(s.try) // it was not sent, or the transport has panicked
	}()
	c, own, err := t.gate.enter(s.ctx, req)
	if err != nil {
		return nil, err
	}
	if s.call = c; own {
		s.ctx = c.ctx
	} else if t.traced.Load() {
		t.gate.bound.Store(true)
	}
	kept := false // the call ends when the body of the response does
	defer func() {
		if own && !kept {
			c.end()
		}
	}()
	for n := 1; ; {
		if s.try, err = s.bodies.Attempt(s.ctx); err != nil { // something inside has read the body, and a hold began before the send
			return nil, fmt.Errorf("gate: %w: %w", core.ErrRejected, err)
		}
		if err = c.sendable(s.ctx, !t.traced.Load(), nil); err != nil {
			return nil, err
		}
		turn := c.admitted() // the call can have another one before the body ends
		resp, cancel, held, err := s.send()
		end := func() { // a second time, it does nothing
			if own {
				c.end()
			} else {
				t.gate.locked(func() { t.gate.land(turn) })
			}
			cancel(nil)
		}
		switch {
		case held:
			c.back()
			continue
		case client.NotSent(err): // an inner plugin has rejected it, or there was no connection
			cancel(nil)
			c.back()
			return nil, err
		// After an error, the call may have been executed.
		case s.judge(resp, err) && own && (err == nil || client.Idempotent(req)) && s.bodies.Ready() == nil && c.again(s.ctx, n) == nil:
			client.Discard(resp)
			cancel(nil)
			n++
			continue
		case err != nil || resp == nil:
			end()
			return resp, err
		}
		kept = true
		stop := context.AfterFunc(s.ctx, end)
		client.OnBodyEnd(resp, func() { stop(); end() })
		return resp, nil
	}
}

// A sending is a request on its way.
type sending struct {
	*transport

	req    *http.Request
	ctx    context.Context //nolint:containedctx // of the request, or of its own call
	call   *call
	bodies *client.Replay
	try    *http.Request // not yet taken over by next; nil if there is none
}

// judge applies the answer, and reports whether it is a refusal.
func (s *sending) judge(resp *http.Response, err error) bool {
	sig, cause := Signal{}, err
	switch {
	case err == nil && resp != nil:
		sig, cause = s.signal(resp), errors.New(resp.Status)
	case s.ctx.Err() == nil:
		sig = s.call.classify(err)
	}
	s.call.judge(sig, err == nil && resp != nil && resp.StatusCode < http.StatusInternalServerError, cause)
	if err == nil && resp != nil && !sig.again() && !sig.Permanent {
		s.actual(resp)
	}
	return sig.again()
}

// send sends the request, unless a hold begins before it has a connection. Then isHeld is true, and the server gets no request. (With
// HTTP/1, a part of a request line that does not fit in the write buffer may have been sent.)
func (s *sending) send() (resp *http.Response, cancel context.CancelCauseFunc, isHeld bool, err error) {
	ctx, cancel := context.WithCancelCause(roundtrip.WithLimit(s.ctx, func(resp *http.Response) bool { return s.signal(resp).Limited }))
	var held, connected atomic.Bool
	var conn net.Conn
	user := s.gate.conns.Begin()
	defer user.End()
	r := s.try.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if s.traced.Store(true); connected.Swap(true) { // net/http itself sends the request again
				s.gate.locked(s.call.spend)
			}
			before := user.Got(info.Conn)
			if !held.Load() && !s.call.ready(ctx, true) {
				before.Answer()
				conn = info.Conn
				held.Store(true)
				cancel(blame.ErrHeld) // HTTP/2 looks at the context before it writes, HTTP/1 before it tries again
			}
		},
		WroteHeaderField: func(name string, value []string) {
			user.WroteHeaderField(name, value)
			if name == "Host" && held.Load() && conn != nil { // HTTP/1 has filled its buffer, and would write it
				_ = conn.Close()
			}
		},
	}))
	if r.Trailer = s.req.Trailer; r.Body != nil && r.Body != http.NoBody {
		r.Body = unread{r.Body, &held}
	}
	resp, err = s.next.RoundTrip(r)
	if s.try = nil; held.Load() {
		cancel(nil)
		client.Discard(resp) // of a transport that ignores the context
		return nil, nil, true, nil
	}
	if !connected.Load() && err == nil { // a transport that calls no hooks: the call counts all the same
		s.gate.locked(s.call.charge)
	}
	roundtrip.Restore(resp, r, s.req)
	return resp, cancel, false, err
}

// The body of a try that is held back is not read, so that it can be sent again without GetBody. For methods that rarely have a body,
// net/http reads a byte of it before it writes the header.
type unread struct {
	io.ReadCloser
	held *atomic.Bool
}

func (u unread) Read(p []byte) (int, error) {
	if u.held.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return u.ReadCloser.Read(p)
}
