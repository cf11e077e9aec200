package client

import (
	"errors"
	"io"
	"sync"
)

// A stream is a body that can be had only once. What is read of it is kept, up
// to a limit, for readers that come later. An old reader may still be reading,
// in a goroutine of a transport, while a new one starts: each sees the body from
// its beginning.
type stream struct {
	source io.ReadCloser
	limit  int64
	pull   chan struct{} // held while reading the source, which may take long

	mu      sync.Mutex
	kept    []byte
	err     error         // what the source ended with
	passed  bool          // more was read than is kept: no new readers
	newest  *streamReader // the one that may read on then
	done    bool          // no more readers will come
	closed  bool          // the source is closed
	aborted bool
}

func newStream(body io.ReadCloser, length, limit int64) *stream {
	if length > limit {
		limit = 0 // it will not fit, so there is no use in keeping a part
	}
	return &stream{source: body, limit: limit, pull: make(chan struct{}, 1)}
}

// whole tells whether a new reader would see all of the body.
func (s *stream) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wholeLocked()
}

func (s *stream) wholeLocked() bool {
	return !s.passed && !s.closed && (s.err == nil || errors.Is(s.err, io.EOF))
}

// reader returns a new reader, or nil when it would not see all of the body.
func (s *stream) reader() *streamReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wholeLocked() {
		return nil
	}
	s.newest = &streamReader{stream: s}
	return s.newest
}

// finish closes the source as soon as the newest reader is closed.
func (s *stream) finish() {
	s.mu.Lock()
	s.done = true
	s.closeUnlock()
}

// abort closes the source now.
func (s *stream) abort() {
	s.mu.Lock()
	s.done, s.aborted = true, true
	s.closeUnlock()
}

// closeUnlock closes the source if it is time, without the lock.
func (s *stream) closeUnlock() {
	now := s.done && !s.closed && (s.aborted || s.newest == nil || s.newest.closed)
	s.closed = s.closed || now
	s.mu.Unlock()
	if now {
		_ = s.source.Close() // as in CloseBody
	}
}

type streamReader struct {
	stream *stream
	watch  watch
	// guarded by stream.mu
	offset int
	closed bool
}

var (
	errStale  = errors.New("client: body is read by a later attempt")
	errClosed = errors.New("client: read of a closed body")
)

func (r *streamReader) Read(p []byte) (int, error) {
	r.watch.begin()
	n, err := r.next(p)
	r.watch.end(n, err)
	return n, err
}

func (r *streamReader) next(p []byte) (int, error) {
	s := r.stream
	s.mu.Lock()
	n, ok, err := r.fromKeptLocked(p)
	s.mu.Unlock()
	if ok {
		return n, err
	}
	s.pull <- struct{}{}
	defer func() { <-s.pull }()
	return r.fromSource(p)
}

// fromKeptLocked reads what is kept; ok is false where the source is to be read.
func (r *streamReader) fromKeptLocked(p []byte) (n int, ok bool, err error) {
	s := r.stream
	switch {
	case r.closed:
		return 0, true, errClosed
	case r.offset < len(s.kept):
		n = copy(p, s.kept[r.offset:])
		r.offset += n
		return n, true, nil
	case r.staleLocked():
		return 0, true, errStale // before the end is told: it has not seen all
	case s.err != nil:
		return 0, true, s.err
	}
	return 0, len(p) == 0, nil
}

// staleLocked tells whether what r reads next would be lost for the newest.
func (r *streamReader) staleLocked() bool {
	return (r.stream.passed || r.stream.limit == 0) && r.stream.newest != r
}

// fromSource reads the source and keeps what fits, unless there is something else
// to read or say since another reader was here, or a new one came. r holds pull.
func (r *streamReader) fromSource(p []byte) (int, error) {
	s := r.stream
	s.mu.Lock()
	if n, ok, err := r.fromKeptLocked(p); ok {
		s.mu.Unlock()
		return n, err
	}
	before := s.passed
	if s.limit == 0 {
		s.passed = true // while it is read, no new reader can be sure to see all
	}
	keep := !s.passed
	if keep { // one byte too many tells that the limit is passed, and is not lost
		p = p[:min(int64(len(p)), s.limit-int64(len(s.kept))+1)]
	}
	s.mu.Unlock()

	n, err := s.source.Read(p)

	s.mu.Lock()
	defer s.mu.Unlock()
	if keep {
		s.kept = append(s.kept, p[:n]...)
		r.offset += n
		s.passed = int64(len(s.kept)) > s.limit
	} else if n == 0 {
		s.passed = before // nothing is lost: it may be an empty body
	}
	if err != nil {
		s.err = err
	}
	return n, err
}

func (r *streamReader) Close() error {
	r.watch.close()
	r.stream.mu.Lock()
	r.closed = true
	r.stream.closeUnlock()
	return nil
}
