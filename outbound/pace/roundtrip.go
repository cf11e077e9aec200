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
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/roundtrip"
)

var _ client.Plugin = (*Pacer)(nil)

// Phase is just inside [client.Admission]: each attempt of a retry takes a permit, and a request
// that waits does not look slow to a breaker.
func (p *Pacer) Phase() client.Phase { return client.Admission + 50 }

// Transport returns next with the pacer before it: a request waits for a permit of its key
// (Config.Key). The shelf life is checked when the request has its connection, right before it is
// written, if next reports connections to [httptrace.ClientTrace], as [http.Transport] does. If the
// permit is stale then, as after a slow dial, the request waits for another one, at most as long as the
// connection took. If none comes by then, the attempt of next ends with an error that no breaker
// counts, a connection of HTTP/1 is closed, and the request waits here and is given to next again,
// earlier than its slot by the time that a connection of HTTP/1 took. A request with a body needs
// GetBody for that: otherwise all of the wait is in the attempt of next. A request that next sends again by itself takes
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
func (t *transport) CloseIdleConnections() { roundtrip.CloseIdleConnections(t.next) }

// RoundTrip sends req when it has a permit.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	s := &sending{Context: req.Context(), p: t.p, ctx: req.Context()}
	body := client.NewReplay(req, 0)
	defer body.Close()
	return s.attempts(t.next, req, body)
}

// attempts sends req, and sends it again while its permit was stale when it had its connection.
//
//nolint:contextcheck // likewise
func (s *sending) attempts(next http.RoundTripper, req *http.Request, body *client.Replay) (*http.Response, error) {
	if err := s.begin(req); err != nil {
		return nil, err
	}
	s.repeatable = req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	for {
		attempt, err := body.Attempt(req.Context())
		if err != nil { // of GetBody
			return nil, &blame.Error{Err: err, Outcome: core.Ignored, NotSent: true}
		}
		resp, err := s.send(next, attempt, req)
		if err == nil || !s.again.Load() {
			return resp, err
		}
		s = &sending{Context: s.Context, p: s.p, ctx: s.ctx, key: s.key, repeatable: true, took: s.took}
		if err = s.wait(); err != nil {
			return nil, err
		}
	}
}

// send sends req with the permit, for the request of the caller.
func (s *sending) send(next http.RoundTripper, req, caller *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(s)
	s.cancel = cancel
	s.user = s.p.conns.Begin()
	defer s.user.End()
	returned, kept := false, false
	defer func() {
		if !returned {
			roundtrip.CloseBody(req) // next has panicked, and might not have closed it
		}
		if !kept {
			s.end()
		}
	}()
	s.started = time.Now()
	attempt := req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:          s.gotConn,
		WroteHeaderField: s.user.WroteHeaderField,
		WroteHeaders:     func() { s.wrote.Store(true) },
	}))
	resp, err := next.RoundTrip(attempt)
	returned = true
	roundtrip.Restore(resp, attempt, caller)
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

// errStale ends an attempt that was not written. It is repeated.
var errStale = &blame.Error{
	Err:     errors.New("pace: the permit was stale when the request had its connection"),
	Outcome: core.Ignored, NotSent: true,
}

// wait waits for the permit of a repetition, outside of the transports that judge an attempt. It ends
// before the slot by the time in which the connection was made, as it has to be made again.
func (s *sending) wait() (err error) {
	c := s.call()
	c.lead = s.took
	s.permit, err = c.end(c.wait())
	s.replaced = c.replaced
	return err
}

func (s *sending) call() *call {
	return &call{p: s.p, ctx: s.ctx, set: s.p.setting(), key: s.key, n: 1, start: time.Now()}
}

// A sending is a request on its way, and the context that its own one is derived from. A next that
// makes several attempts of it can call its hooks at the same time.
type sending struct {
	context.Context //nolint:containedctx // of the request

	p      *Pacer
	ctx    context.Context //nolint:containedctx // likewise, and with its Cancel
	cancel context.CancelCauseFunc
	user   *roundtrip.User
	key    string
	permit Permit
	used   atomic.Bool // the permit
	wrote  atomic.Bool // possibly
	again  atomic.Bool // the permit was stale: repeat the request with another one
	over   atomic.Bool // a request with the context of resp.Request still calls the hooks
	err    atomic.Pointer[error]

	repeatable bool
	started    time.Time
	took       time.Duration   // the longest time to a new connection of HTTP/1, for repetitions
	replaced   <-chan struct{} // closed when the rates of the permit of a repetition are replaced
}

func (s *sending) end() {
	s.over.Store(true)
	s.cancel(nil)
}

// begin waits for the permit.
func (s *sending) begin(req *http.Request) (err error) {
	key := s.p.setting().Key
	if key == nil {
		key = func(req *http.Request) string { host, _ := client.Host(req); return host }
	}
	s.key = key(req)
	s.permit, err = s.p.Wait(s.ctx, s.key, 1)
	return err
}

// gotConn makes sure that a request that is about to be written has a permit of its own.
func (s *sending) gotConn(info httptrace.GotConnInfo) {
	if s.over.Load() {
		return
	}
	before := s.user.Got(info.Conn)
	if s.used.CompareAndSwap(false, true) {
		replaced := false
		if s.took > 0 {
			c := s.call()
			c.replaced = s.replaced
			var err error
			if replaced, err = c.sleep(s.permit.At); err != nil {
				s.err.Store(&err)
				s.stop(err, info, before)
				return
			}
		}
		now := time.Now()
		switch {
		case replaced: // another permit, under the new rates
			s.p.refund(&s.permit)
		case s.permit.staleAt(now):
			s.p.giveUp(s.ctx, s.key, &s.permit, now)
		default:
			return
		}
		if s.repeatable {
			s.replace(now.Sub(s.started), info, before)
			return
		}
	}
	_, err := s.p.Wait(s.ctx, s.key, 1)
	if err == nil {
		return
	}
	if s.wrote.Load() && errors.Is(err, core.ErrRejected) { // an earlier attempt may have arrived
		err = fmt.Errorf("pace: no permit to send the request again: %v", err) //nolint:errorlint // it is no rejection
	}
	s.err.Store(&err)
	s.stop(err, info, before)
}

// replace gets another permit if one comes soon: at most in the time that the connection took, so the
// attempt does not become slow by it. Otherwise the attempt ends, and is repeated.
func (s *sending) replace(took time.Duration, info httptrace.GotConnInfo, before *roundtrip.User) {
	c := s.call()
	if permit, ok := c.soon(max(took, c.set.Slack)); ok {
		_, _ = c.end(permit, nil)
		return
	}
	if s.took = max(s.took, took); calledByHTTP2() {
		s.took = 0 // the connection stays open
	}
	s.again.Store(true)
	s.stop(errStale, info, before)
}

// stop ends the request before it is written.
func (s *sending) stop(err error, info httptrace.GotConnInfo, before *roundtrip.User) {
	before.Answer()
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
