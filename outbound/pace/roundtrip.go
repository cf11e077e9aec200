package pace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/request"
)

var _ client.Plugin = (*Pacer)(nil)

// Phase is just inside [client.Admission]: each attempt of a retry takes a permit, and a request
// that waits does not look slow to a breaker.
func (p *Pacer) Phase() client.Phase { return client.Admission + 50 }

// Transport returns next with the pacer before it: a request waits for a permit of its key
// (Config.Key). The shelf life is checked when the request has its connection, right before it is
// written, if next reports connections to [httptrace.ClientTrace], as [http.Transport] does. If the
// permit is stale then, as after a slow dial, the request waits for another one; without one it is
// not sent, and a connection of HTTP/1 is closed. A request that next sends again by itself takes
// another permit. With StrictMaxConcurrentRequests of an [http.HTTP2Config], a request can wait for
// a stream after the check. The errors are those of [Pacer.Wait]. A nil next is a clone of
// [http.DefaultTransport].
func (p *Pacer) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = client.New(nil)
	}
	return &transport{p, next}
}

type transport struct {
	p    *Pacer
	next http.RoundTripper
}

// CloseIdleConnections passes the call on.
func (t *transport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

// RoundTrip sends req when it has a permit.
//
//nolint:contextcheck // the contexts are those of req
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := &sending{Context: req.Context(), p: t.p, ctx: request.Context(req)}
	defer request.Release(s.ctx)
	if err := s.begin(req); err != nil {
		client.CloseBody(req)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(s)
	s.cancel = cancel
	kept := false
	defer func() {
		if !kept {
			s.end()
		}
	}()
	attempt := request.WithContext(req, httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      s.gotConn,
		WroteHeaders: func() { s.wrote.Store(true) },
	}))
	resp, err := t.next.RoundTrip(attempt)
	request.Outlive(resp, attempt, req, sendingKey{})
	if failed := s.err.Load(); err != nil && failed != nil {
		return resp, *failed
	}
	if err != nil || resp == nil {
		return resp, err
	}
	kept = true
	client.OnBodyEnd(resp, s.end)
	return resp, nil
}

// A sending is a request on its way, and the context that its own one is derived from. A next that
// makes several attempts of it can call its hooks at the same time.
type sending struct {
	context.Context //nolint:containedctx // of the request

	p      *Pacer
	ctx    context.Context //nolint:containedctx // likewise, and with its Cancel
	cancel context.CancelCauseFunc
	key    string
	permit Permit
	used   atomic.Bool // the permit
	wrote  atomic.Bool // possibly
	over   atomic.Bool // a request with the context of resp.Request still calls the hooks
	err    atomic.Pointer[error]
}

type sendingKey struct{} // finds the innermost sending

func (s *sending) Value(key any) any {
	if key == (sendingKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func (s *sending) end() {
	s.over.Store(true)
	s.cancel(nil)
}

// begin waits for the permit.
func (s *sending) begin(req *http.Request) (err error) {
	returned := false
	defer func() {
		if !returned { // a function of the user's panics
			client.CloseBody(req)
		}
	}()
	key := s.p.setting().Key
	if key == nil {
		key = client.Host
	}
	s.key = key(req)
	s.permit, err = s.p.Wait(s.ctx, s.key, 1)
	returned = true
	return err
}

// gotConn makes sure that a request that is about to be written has a permit of its own.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	if s.over.Load() {
		return
	}
	if s.used.CompareAndSwap(false, true) {
		now := time.Now()
		if !s.permit.staleAt(now) {
			return
		}
		s.p.giveUp(s.ctx, s.key, &s.permit, now)
	}
	_, err := s.p.Wait(s.ctx, s.key, 1)
	if err == nil {
		return
	}
	if s.wrote.Load() && errors.Is(err, core.ErrRejected) { // an earlier attempt may have arrived
		err = fmt.Errorf("pace: no permit to send the request again: %v", err) //nolint:errorlint // it is no rejection
	}
	s.err.Store(&err)
	s.cancel(err)
	if info.Conn != nil && !calledByHTTP2() {
		_ = info.Conn.Close() // net/http writes a request of HTTP/1 even if its context has ended
	}
}

// calledByHTTP2 reports whether the caller of the hook is an HTTP/2 client. It does not write a request
// whose context has ended, and other requests share its connection. Without TLS, nothing but the
// stack shows the protocol of a connection.
func calledByHTTP2() bool {
	var stack [32]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "http2") {
			return true
		}
		if !more || strings.HasPrefix(frame.Function, "net/http.") {
			return false
		}
	}
}
