package resiltest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// A Reply is the answer to one attempt. The zero value is a 200 without a body, at once. The steps are, in this order: the request's
// body is read, Delay, Panic or Err or Reset, headers, Body, Stall, Reset or the end.
type Reply struct {
	// Status is the status code of the response. If zero, it is 200.
	Status int
	// Header has the headers of the response. With a Content-Length above the length of Body the response ends too early.
	Header http.Header
	// Body is the body of the response, or the beginning of it. It is not sent for HEAD, 204 and 304.
	Body string
	// Delay is the time until the headers. If negative, they never come: it waits until the request's context ends.
	Delay time.Duration
	// Pace is the time before each byte of Body. If negative, the first one never comes.
	Pace time.Duration
	// Stall is the time between the last byte of Body and what follows. If negative, nothing follows: the reader waits until it closes
	// the body or the request's context ends.
	Stall time.Duration
	// Endless repeats Body, or "x", until the reader stops.
	Endless bool
	// Reset resets the connection after Body. Where Status, Header and Body are empty, it does so before the headers. Over HTTP/2 a
	// Server resets the stream.
	Reset bool
	// Unread answers before the request's body is read. A server of net/http does not notice that a client has gone while a body is
	// unread: a wait then lasts until the Server is closed.
	Unread bool
	// Err is returned instead of a response. As a handler it is like Reset.
	Err error
	// Panic, if not nil, is the value of a panic instead of a response.
	Panic any
}

// size returns the ContentLength, or -1 if it is unknown.
func (r *Reply) size() int64 {
	if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil {
		return n
	}
	if r.Endless || r.Reset || r.Pace != 0 || r.Stall != 0 {
		return -1
	}
	return int64(len(r.Body))
}

func (r *Reply) response(req *http.Request) (*http.Response, error) {
	switch {
	case r.Panic != nil:
		panic(r.Panic)
	case r.Err != nil:
		return nil, r.Err
	case r.Reset && r.Status == 0 && r.Header == nil && r.Body == "" && !r.Endless:
		return nil, resetError("read")
	}
	status := cmp.Or(r.Status, http.StatusOK)
	resp := &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, ContentLength: r.size(), Request: req,
	}
	maps.Copy(resp.Header, r.Header.Clone())
	if req.Method == http.MethodHead {
		r = &Reply{}
	} else if !hasBody(status) {
		r, resp.ContentLength = &Reply{}, 0
	}
	s := &stream{r: *r, size: r.size()}
	s.ctx, s.cancel = context.WithCancelCause(req.Context())
	resp.Body = WrapBody(s)
	return resp, nil
}

func hasBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// stream is the body of a reply.
type stream struct {
	r       Reply
	size    int64
	pos     int64
	stalled bool
	ctx     context.Context //nolint:containedctx // of the request, until the body is closed
	cancel  context.CancelCauseFunc
}

func (s *stream) Read(p []byte) (int, error) {
	more := s.pos < int64(len(s.r.Body)) || s.r.Endless
	switch {
	case len(p) == 0:
		return 0, nil
	case more:
		if s.r.Pace != 0 {
			p = p[:1]
		}
		if err := pause(s.ctx, s.r.Pace); err != nil {
			return 0, err
		}
		n, text := 0, cmp.Or(s.r.Body, "x")
		for n < len(p) && (s.r.Endless || s.pos < int64(len(s.r.Body))) {
			m := copy(p[n:], text[s.pos%int64(len(text)):])
			n, s.pos = n+m, s.pos+int64(m)
		}
		return n, nil
	case s.pos == s.size && s.r.Stall == 0 && !s.r.Reset:
		return 0, io.EOF
	case !s.stalled:
		if err := pause(s.ctx, s.r.Stall); err != nil {
			return 0, err
		}
		s.stalled = true
	}
	switch {
	case s.r.Reset:
		return 0, resetError("read")
	case s.pos < s.size:
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

func (s *stream) Close() error { s.cancel(errClosedBody); return nil }
