package client

import (
	"errors"
	"io"
	"sync"
)

// A stream is a body that can be read only once. What is read of it is kept, up to a limit, so that each attempt sees the body from its
// beginning. A transport may still be reading the body of an attempt that is over: what it reads then is kept too, and its next Read fails.
type stream struct {
	source io.ReadCloser
	limit  int64
	pull   chan struct{} // held during a Read of source, which can take long

	mu     sync.Mutex
	kept   []byte // more than limit bytes show that the limit is exceeded
	err    error  // of the last Read of source
	newest *view
	done   bool // there is no further attempt
	closed bool // source is closed
}

var errStale = errors.New("client: request body is closed, or read by a later attempt")

// use makes v the body of the next attempt, and earlier views stale. It returns an error if an attempt could not see the body from its
// beginning; if v is nil, it only checks that.
func (s *stream) use(v *view) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(len(s.kept)) > s.limit || s.err != nil && s.err != io.EOF { //nolint:errorlint // as io.Reader has it
		return ErrNotReplayable
	}
	if v != nil {
		s.newest = v
	}
	return nil
}

// end closes the source as soon as the newest view is closed.
func (s *stream) end() {
	s.mu.Lock()
	s.done = true
	s.closeUnlock()
}

func (s *stream) closeUnlock() {
	now := s.done && !s.closed && (s.newest == nil || s.newest.closed)
	s.closed = s.closed || now
	s.mu.Unlock()
	if now {
		_ = s.source.Close() // as in roundtrip.CloseBody
	}
}

// A view is the body of one attempt.
type view struct {
	stream *stream
	offset int  // guarded by the mu of stream
	closed bool // likewise
}

func (v *view) Read(p []byte) (int, error) {
	s := v.stream
	s.pull <- struct{}{}
	defer func() { <-s.pull }()
	n, keep, err := v.fromKept(p)
	if n > 0 || err != nil || len(p) == 0 {
		return n, err
	}
	if keep > 0 {
		p = p[:min(len(p), keep)]
	}
	n, err = s.source.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if keep > 0 {
		s.kept = append(s.kept, p[:n]...)
		v.offset += n
	}
	s.err = err
	return n, err
}

// fromKept reads what is kept. If nothing is left of that, keep is how many bytes of the next Read of the source must be kept.
func (v *view) fromKept(p []byte) (n, keep int, err error) {
	s := v.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case v.closed, s.newest != v:
		return 0, 0, errStale
	case v.offset < len(s.kept):
		n = copy(p, s.kept[v.offset:])
		v.offset += n
		return n, 0, nil
	}
	return 0, int(min(s.limit-int64(len(s.kept)), 1<<30) + 1), s.err
}

func (v *view) Close() error {
	v.stream.mu.Lock()
	v.closed = true
	v.stream.closeUnlock()
	return nil
}
