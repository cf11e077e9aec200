package resiltest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

// A Reply is the answer to one attempt. The zero value is a 200 without a body, at once.
// The steps are, in this order: the request's body is read, Delay, Panic or Do or Err or
// Reset, headers, Body, Stall, Reset or the end.
type Reply struct {
	// Status is the status code of the response. If zero, it is 200.
	Status int

	// Header has the headers of the response. With a Content-Length above the length of
	// Body the response ends too early: its reader gets io.ErrUnexpectedEOF.
	Header http.Header

	// Body is the body of the response, or the beginning of it. It is not sent for
	// HEAD, 204 and 304, which have no body in HTTP.
	Body string

	// Delay is the time until the headers. If negative, they never come: it waits
	// until the request's context ends.
	Delay time.Duration

	// Pace is the time before each byte of Body. If zero, it comes at once. Negative
	// is like a negative Stall before the first byte.
	Pace time.Duration

	// Stall is the time between the last byte of Body and what follows. If negative,
	// nothing follows: the reader waits until it closes the body or the request's
	// context ends.
	Stall time.Duration

	// Endless repeats Body until the reader stops. If Body is empty, it is "x". In a
	// bubble only Pace takes time while the body is read.
	Endless bool

	// Reset resets the connection after Body. Where Status, Header and Body are
	// empty, it does so before the headers. The error matches syscall.ECONNRESET (on
	// Windows, that of a Server is WSAECONNRESET, and a part of Body may be lost).
	// Over HTTP/2 a Server resets the stream.
	Reset bool

	// Unread answers before the request's body is read. As a transport the Script
	// closes it unread. A server of net/http does not notice that a client has gone
	// while a body is unread: a wait then lasts until the Server is closed.
	Unread bool

	// Err is returned instead of a response. As a handler it is like Reset.
	Err error

	// Panic, if not nil, is the value of a panic instead of a response. As a handler,
	// http.ErrAbortHandler closes the connection silently.
	Panic any

	// Do, if not nil, makes the response, or the error. Only Unread and Delay count
	// beside it. With Unread it has the request's body, and closes it. It must not
	// change the request.
	Do func(*http.Request) (*http.Response, error)
}

// NewBody returns the body of the reply alone: its reads take Pace and Stall, it ends
// as the Reply says, and it ends early with the cause of ctx.
func (r Reply) NewBody(ctx context.Context) *Body {
	return &Body{next: &stream{r: r, size: r.size(), done: ctx.Done(), cause: func() error { return context.Cause(ctx) }, closed: make(chan struct{})}}
}

// size returns the ContentLength, or -1 if it is unknown.
func (r Reply) size() int64 {
	if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil {
		return n
	}
	if r.Endless || r.Reset || r.Pace != 0 || r.Stall != 0 {
		return -1
	}
	return int64(len(r.Body))
}

func (r Reply) response(req *http.Request) (*http.Response, error) {
	if r.Reset && r.Status == 0 && r.Header == nil && r.Body == "" && !r.Endless {
		return nil, resetError("read")
	}
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	resp := &http.Response{
		Status: fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)), StatusCode: r.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.Header.Clone(), ContentLength: r.size(), Request: req,
	}
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	if !hasBody(r.Status) || req.Method == http.MethodHead {
		if r = (Reply{}); req.Method != http.MethodHead {
			resp.ContentLength = 0
		}
	}
	resp.Body = r.NewBody(req.Context())
	return resp, nil
}

func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

func resetError(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}

// stream is the body of a reply.
type stream struct {
	r       Reply
	size    int64
	pos     int64
	stalled bool
	done    <-chan struct{}
	cause   func() error
	closed  chan struct{}
}

func (s *stream) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0:
		return 0, nil
	case s.more():
		if s.r.Pace != 0 {
			p = p[:1]
		}
		if err := s.wait(s.r.Pace); err != nil {
			return 0, err
		}
		return s.fill(p), nil
	case s.pos == s.size && s.r.Stall == 0 && !s.r.Reset:
		return 0, io.EOF
	case !s.stalled:
		if err := s.wait(s.r.Stall); err != nil {
			return 0, err
		}
		s.stalled = true
	}
	switch {
	case s.r.Reset:
		return 0, resetError("read")
	case s.pos < s.size:
		return 0, io.ErrUnexpectedEOF
	default:
		return 0, io.EOF
	}
}

// more reports whether there is more text.
func (s *stream) more() bool { return s.pos < int64(len(s.r.Body)) || s.r.Endless }

// fill writes the text that follows into p, and an endless one again and again.
func (s *stream) fill(p []byte) (n int) {
	text := cmp.Or(s.r.Body, "x")
	for n < len(p) && s.more() {
		m := copy(p[n:], text[s.pos%int64(len(text)):])
		n, s.pos = n+m, s.pos+int64(m)
	}
	return n
}

// wait fails where the context ends or the body is closed before d is over.
func (s *stream) wait(d time.Duration) error {
	if d != 0 {
		pause(d, s.done, s.closed)
	}
	select {
	case <-s.closed:
		return errClosedBody
	case <-s.done:
		return s.cause()
	default:
		return nil
	}
}

func (s *stream) Close() error { close(s.closed); return nil } // Body closes it once
