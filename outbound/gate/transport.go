package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/roundtrip"
)

// Transport returns a transport whose requests pass the gate. A refused request is sent again whatever its method, as a
// vendor that refuses has not executed it; with a body it needs GetBody. When Config.MaxAttempts are used up, or the
// next attempt would have to wait too long, the last response is returned unchanged. The error of a request that was
// not sent matches core.ErrRejected. If next is nil, it is a clone of http.DefaultTransport.
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

// RoundTrip sends req when the vendor permits it.
//
//nolint:contextcheck // the contexts are those of req
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := &sending{transport: t, req: req, ctx: req.Context()}
	s.setBody(req.Body)
	defer s.closeBody()
	c, own, err := t.gate.enter(s.ctx, req, t.gate.carried(s.ctx).calls)
	if err != nil {
		return nil, err
	}
	s.call, s.own = c, own
	if !own && s.traced.Load() {
		s.gate.bind()
	}
	if own {
		s.ctx = c.ctx
		defer func() {
			if !s.kept {
				c.end()
			}
		}()
	}
	return s.attempts()
}

// A sending is a request on its way.
type sending struct {
	*transport

	req  *http.Request
	ctx  context.Context //nolint:containedctx // of the request, and with own that of the call
	call *call
	own  bool
	body *body // not yet taken over by an attempt; nil if there is none
	kept bool  // the call ends when the body of the response does
}

// attempts sends the request, and sends it again while it is refused.
func (s *sending) attempts() (*http.Response, error) {
	c := s.call
	for n := 1; ; n++ {
		resp, cancel, err := s.try()
		if err != nil && cancel == nil {
			return nil, err // it was not sent
		}
		if again := s.judge(resp, err) && s.own && s.rewind(resp, err) && c.again(n) == nil; again {
			client.Discard(resp)
			cancel()
			continue
		}
		s.closeBody() // for an attempt that is not made
		if err != nil || resp == nil {
			c.land()
			cancel()
			return resp, err
		}
		s.kept = true
		end := sync.OnceFunc(func() {
			if s.own {
				c.end()
			} else {
				c.land()
			}
			cancel()
		})
		stop := context.AfterFunc(s.ctx, end)
		client.OnBodyEnd(resp, func() { stop(); end() })
		return resp, nil
	}
}

// try sends the request once. cancel ends its context; it is nil if the request was not sent.
func (s *sending) try() (resp *http.Response, cancel context.CancelFunc, err error) {
	for {
		if err = s.call.sendable(s.ctx, !s.traced.Load(), nil); err != nil {
			return nil, nil, err
		}
		var held bool
		if resp, cancel, held, err = s.send(); held {
			s.call.back()
			continue
		}
		if client.NotSent(err) { // an inner plugin has rejected it, or there was no connection
			cancel()
			s.call.back()
			return nil, nil, err
		}
		return resp, cancel, err
	}
}

// judge applies the answer, and reports whether it is a refusal.
func (s *sending) judge(resp *http.Response, err error) bool {
	c, set, sig := s.call, s.gate.settings(), Signal{}
	cause := err
	switch {
	case err == nil && resp != nil:
		cause = errors.New(resp.Status)
		sig = s.signal(resp)
	case err != nil && s.ctx.Err() == nil && !errors.Is(err, core.ErrRejected):
		sig = set.Classify(nil, err)
	}
	c.judge(sig, err == nil && resp != nil && resp.StatusCode < http.StatusInternalServerError, cause)
	return sig.Limited
}

func (s *sending) signal(resp *http.Response) Signal {
	return s.gate.settings().signal(resp, func(sig Signal) { s.call.hold(sig, nil) })
}

// rewind prepares the body of another attempt. It reports whether there can be one: after an error, the call may have been executed.
func (s *sending) rewind(resp *http.Response, err error) bool {
	switch {
	case err != nil && !client.Idempotent(s.req), err == nil && resp == nil:
		return false
	case s.req.Body == nil || s.req.Body == http.NoBody:
		return true
	case s.req.GetBody == nil || len(s.req.Trailer) > 0:
		return false
	}
	fresh, err := s.req.GetBody()
	if err != nil {
		return false
	}
	s.setBody(fresh)
	return true
}

// send sends the request, unless a hold begins before it has a connection. Then isHeld is true, the server gets no request, and the body is
// neither read nor closed. Otherwise the body is closed. (With HTTP/1, a part of a request line that does not fit in the write buffer may
// have been sent.)
func (s *sending) send() (resp *http.Response, cancel context.CancelFunc, isHeld bool, err error) {
	ctx, cancel := context.WithCancel(roundtrip.WithLimit(s.ctx, func(resp *http.Response) bool { return s.signal(resp).Limited }))
	var held, connected atomic.Bool
	var conn net.Conn
	user := s.gate.conns.Begin()
	defer user.End()
	r := s.req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if s.traced.Store(true); connected.Swap(true) { // net/http itself sends the request again
				unlock := s.gate.lock()
				s.call.spend()
				unlock()
			}
			before := user.Got(info.Conn)
			if !held.Load() && !s.call.ready(ctx, true) {
				before.Answer()
				conn = info.Conn
				held.Store(true)
				cancel() // HTTP/2 looks at the context before it writes, HTTP/1 before it tries again
			}
		},
		WroteHeaderField: func(name string, value []string) {
			user.WroteHeaderField(name, value)
			if name == "Host" && held.Load() && conn != nil { // HTTP/1 has filled its buffer, and would write it
				_ = conn.Close()
			}
		},
	}))
	if s.body != nil {
		r.Body = kept{s.body, &held}
		if s.req.GetBody != nil {
			r.GetBody = func() (io.ReadCloser, error) { // for a repetition by net/http itself
				fresh, err := s.req.GetBody()
				if err != nil || fresh == nil || fresh == http.NoBody {
					return fresh, err
				}
				s.closeBody() // in a try that is held back, net/http could not
				s.setBody(fresh)
				return kept{s.body, &held}, nil
			}
		}
	}
	resp, err = s.next.RoundTrip(r)
	if held.Load() {
		cancel()
		client.Discard(resp) // of a transport that ignores the context
		return nil, nil, true, nil
	}
	if !connected.Load() && err == nil { // a transport that calls no hooks: the call counts all the same
		unlock := s.gate.lock()
		s.call.charge()
		unlock()
	}
	s.body = nil
	roundtrip.Restore(resp, r, s.req)
	return resp, cancel, false, err
}

func (s *sending) setBody(b io.ReadCloser) {
	if b != nil && b != http.NoBody {
		s.body = &body{ReadCloser: b}
	}
}

func (s *sending) closeBody() {
	if s.body != nil {
		_ = s.body.Close() // it is not read
		s.body = nil
	}
}

// A body is closed once.
type body struct {
	io.ReadCloser
	closed atomic.Bool
}

func (b *body) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.ReadCloser.Close()
}

// A kept body is not closed by a try that is held back. It is not read either: net/http writes the header first, and that fails. (For some
// types of a body it would read first, but it does not know this type.)
type kept struct {
	*body
	held *atomic.Bool
}

func (k kept) Close() error {
	if k.held.Load() {
		return nil
	}
	return k.body.Close()
}
