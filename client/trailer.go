package client

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// patience is how long a body waits for the Read of an earlier one. The two may fill the
// same map, but a Read that is stuck must not hold up a later attempt.
const patience = 10 * time.Millisecond

// trailers gives each attempt a Trailer of its own. A caller may fill req.Trailer while
// the body is read, and must not after the body's end, so that is when its values are
// copied. The transport of an old attempt may still read its own copy then, but no more
// of its body.
type trailers struct {
	req      *http.Request
	declared http.Header // of req, before a body was read

	mu     sync.Mutex
	newest *http.Request // the attempt that may read
	turn   chan struct{} // held during a Read; another one after a Read that is stuck
}

// attach makes attempt, which has the body, send its trailers. It must be called before
// the body is read. A transport may get more bodies by GetBody, for repetitions of its own.
func (t *trailers) attach(attempt *http.Request) {
	t.mu.Lock()
	t.newest = attempt
	t.mu.Unlock()
	attempt.Trailer = t.declared.Clone()
	attempt.Body = t.wrap(attempt.Body, attempt)
	if getBody := attempt.GetBody; getBody != nil {
		attempt.GetBody = func() (io.ReadCloser, error) {
			body, err := getBody()
			return t.wrap(body, attempt), err
		}
	}
}

func (t *trailers) wrap(body io.ReadCloser, to *http.Request) io.ReadCloser {
	if body == nil {
		return nil
	}
	return &trailedBody{ReadCloser: body, trailers: t, to: to}
}

// trailerOf returns the trailer of a request that was sent: a copy if the transport may still
// read the body, at the end of which it is filled.
func trailerOf(req *http.Request) http.Header {
	b, trailed := req.Body.(*trailedBody)
	if !trailed {
		return req.Trailer
	}
	b.trailers.mu.Lock()
	defer b.trailers.mu.Unlock()
	return maps.Clone(req.Trailer)
}

type trailedBody struct {
	io.ReadCloser
	trailers *trailers
	to       *http.Request
}

func (b *trailedBody) Read(p []byte) (int, error) {
	t := b.trailers
	if _, streamed := b.ReadCloser.(*streamReader); streamed { // that takes turns by itself
		n, err := b.ReadCloser.Read(p)
		if errors.Is(err, io.EOF) {
			t.copy(b.to, nil)
		}
		return n, err
	}
	turn := t.take(b.to)
	if turn == nil {
		return 0, errStale
	}
	defer func() { <-turn }()
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		t.copy(b.to, turn)
	}
	return n, err
}

// take returns the turn of an attempt, which it holds, or nil after a later attempt began.
func (t *trailers) take(attempt *http.Request) chan struct{} {
	t.mu.Lock()
	turn := t.turn
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
	default:
		turn = t.wait(turn)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest != attempt {
		<-turn
		return nil
	}
	t.turn = turn
	return turn
}

// wait returns the turn when it is free, or a new one if it stays taken.
func (t *trailers) wait(turn chan struct{}) chan struct{} {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case turn <- struct{}{}:
	case <-late.C:
		turn = make(chan struct{}, 1)
		turn <- struct{}{}
	}
	return turn
}

// copy gives attempt the trailers after the end of its body, unless a later Read has not
// waited for that: the map is then filled by another body.
func (t *trailers) copy(attempt *http.Request, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest != attempt || turn != nil && turn != t.turn {
		return
	}
	for name, values := range t.req.Trailer {
		if attempt.Trailer != nil && !slices.Equal(values, t.declared[name]) { // otherwise a plugin may have set it
			attempt.Trailer[name] = slices.Clone(values)
		}
	}
}
