package resiltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// BodyLimit is the number of bytes of a request's body that an [Attempt] keeps.
const BodyLimit = 1 << 20

// A Script answers attempt after attempt with its replies. It is both a transport and a
// handler: give it to the client under test, or to [Serve].
type Script struct {
	mu       sync.Mutex
	replies  []Reply
	first    int // the attempt that the first of replies is for
	attempts []*Attempt
}

// NewScript returns a script: attempt n gets reply n, and later attempts get the last
// one. Without replies, all get the zero Reply.
func NewScript(replies ...Reply) *Script { return &Script{replies: replies} }

// Set replaces the replies: the next attempt gets the first one. Attempts in progress
// keep their reply.
func (s *Script) Set(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies, s.first = replies, len(s.attempts)
}

// An Attempt is the record that a Script keeps of a request.
type Attempt struct {
	// Request is a copy of the request, without its body. Its context is that of the
	// request, which shows how the attempt ended.
	Request *http.Request
	// At is the time of its arrival.
	At time.Time
	// Body is the request's body, up to BodyLimit, and Size its whole length in bytes.
	// They are empty until it is read, and with Unread.
	Body string
	Size int64
	// BodyErr is the error of reading the request's body, or nil.
	BodyErr error
	// Response is the body of the response, nil if there is none.
	Response *Body
}

// Attempts returns the attempts so far, in the order of their arrival. Attempts whose
// context had ended before count too; they get its cause.
func (s *Script) Attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Attempt, len(s.attempts))
	for i, a := range s.attempts {
		all[i] = *a
	}
	return all
}

// Calls returns the number of attempts so far.
func (s *Script) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attempts)
}

// Waits returns the times between the arrivals of the attempts.
func (s *Script) Waits() (all []time.Duration) {
	attempts := s.Attempts()
	for i := 1; i < len(attempts); i++ {
		all = append(all, attempts[i].At.Sub(attempts[i-1].At))
	}
	return all
}

// Closes returns the number of closes of each response's body, in the order of the
// attempts, without attempts that got no response.
func (s *Script) Closes() (all []int) {
	for _, a := range s.Attempts() {
		if a.Response != nil {
			all = append(all, a.Response.Closes())
		}
	}
	return all
}

// RoundTrip answers the next attempt, as a transport.
func (s *Script) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		return s.answer(req, nil)
	}
	closeBody := sync.OnceFunc(func() { _ = req.Body.Close() })
	return s.answer(req, closeBody)
}

// ServeHTTP answers the next attempt, as a handler.
func (s *Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := s.answer(r, nil) //nolint:bodyclose // send closes it
	if err == nil {
		err = send(w, resp)
	}
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) && resp != nil { // net/http closes the connection of a short body
		return
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		Reset(conn)
		return
	}
	panic(http.ErrAbortHandler)
}

// answer answers a request. As a transport it closes the request's body, by closeBody.
func (s *Script) answer(req *http.Request, closeBody func()) (*http.Response, error) {
	ctx := req.Context()
	r, a := s.next(req)
	if closeBody != nil && (!r.Unread || r.Do == nil) {
		defer closeBody()
		defer context.AfterFunc(ctx, closeBody)() // as net/http does, or a body that stalls would hold us
	}
	if err := s.receive(req, &r, a); err != nil {
		return nil, err
	}
	switch {
	case r.Panic != nil:
		panic(r.Panic)
	case r.Err != nil:
		return nil, r.Err
	case r.Do == nil:
		r.Do = r.response
	}
	resp, err := r.Do(req)
	if err != nil || resp == nil {
		return resp, err
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	body, ok := resp.Body.(*Body)
	if w, writes := resp.Body.(io.Writer); !ok {
		body = WrapBody(resp.Body)
		resp.Body = withWriter(body, w, writes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Response = body
	return resp, nil
}

// receive reads the request and waits until the reply is due.
func (s *Script) receive(req *http.Request, r *Reply, a *Attempt) error {
	ctx := req.Context()
	if !r.Unread && req.Body != nil && ctx.Err() == nil {
		if err := s.read(req.Body, a); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if r.Delay != 0 && ctx.Err() == nil {
		pause(r.Delay, ctx.Done(), nil)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// withWriter keeps what an upgraded connection is written to with.
func withWriter(b *Body, w io.Writer, writes bool) io.ReadCloser {
	if !writes {
		return b
	}
	return struct {
		*Body
		io.Writer
	}{b, w}
}

// next notes the request and finds the reply for it.
func (s *Script) next(req *http.Request) (Reply, *Attempt) {
	a := &Attempt{Request: req.Clone(req.Context()), At: time.Now()}
	a.Request.Body, a.Request.GetBody = nil, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, a)
	if len(s.replies) == 0 {
		return Reply{}, a
	}
	return s.replies[min(len(s.attempts)-1-s.first, len(s.replies)-1)], a
}

// read reads the request's body to its end, and keeps the beginning.
func (s *Script) read(body io.Reader, a *Attempt) error {
	var kept bytes.Buffer
	size, err := io.Copy(&kept, io.LimitReader(body, BodyLimit))
	if err == nil && size == BodyLimit {
		var rest int64
		rest, err = io.Copy(io.Discard, body)
		size += rest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Body, a.Size, a.BodyErr = kept.String(), size, err
	return err
}

// send writes the response, each piece at once.
func send(w http.ResponseWriter, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	rc := http.NewResponseController(w)
	for name, values := range resp.Header {
		w.Header()[name] = slices.Clone(values)
	}
	if resp.ContentLength >= 0 && hasBody(resp.StatusCode) {
		w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
	for buf := make([]byte, 32<<10); ; {
		_ = rc.Flush() // send the bytes before a read that stalls
		n, err := resp.Body.Read(buf)
		if _, werr := w.Write(buf[:n]); n > 0 && werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if n > 0 {
				_ = rc.Flush()
			}
			return err
		}
	}
}
