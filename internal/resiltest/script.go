package resiltest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"
)

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
	Request  *http.Request // a copy without its body; its context shows how the attempt ended
	At       time.Time     // of its arrival
	Body     string        // of the request, up to 64 KiB
	Response *Body         // nil if there is none
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
func (s *Script) Calls() int { return len(s.Attempts()) }

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
	closeBody := sync.OnceFunc(func() {
		if req.Body != nil {
			_ = req.Body.Close()
		}
	})
	defer closeBody()
	defer context.AfterFunc(req.Context(), closeBody)() // as net/http does, or a body that stalls would hold us
	return s.answer(req)
}

// ServeHTTP answers the next attempt, as a handler.
func (s *Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := s.answer(r) //nolint:bodyclose // send closes it
	if err == nil {
		err = send(w, resp)
	}
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) && resp != nil { // net/http closes the connection of a short body
		return
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		reset(conn)
		return
	}
	panic(http.ErrAbortHandler)
}

// answer answers a request, and does not close its body.
func (s *Script) answer(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	r, a := s.next(req)
	if !r.Unread && req.Body != nil && ctx.Err() == nil {
		if err := s.read(req.Body, a); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	if err := pause(ctx, r.Delay); err != nil {
		return nil, err
	}
	resp, err := r.response(req)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		a.Response, _ = resp.Body.(*Body)
	}
	return resp, err
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
	kept, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Body = string(kept)
	return err
}

// send writes the response, each piece at once.
func send(w http.ResponseWriter, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	rc := http.NewResponseController(w)
	maps.Copy(w.Header(), resp.Header)
	if resp.ContentLength >= 0 && hasBody(resp.StatusCode) {
		w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
	_ = rc.Flush() // send the bytes before a read that stalls
	for buf := make([]byte, 32<<10); ; {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			_ = rc.Flush()
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
