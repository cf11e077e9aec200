package client

import (
	"errors"
	"io"
	"sync"
)

// A stream is a body that can be read only once. The bytes read are kept, up to a limit,
// for later readers. An old reader may still be reading, in a goroutine of a transport,
// while a new one starts: each sees the body from its beginning.
type stream struct {
	source io.ReadCloser
	limit  int64
	pull   chan struct{} // held while reading the source, which may take long

	mu      sync.Mutex
	kept    []byte
	err     error         // of the source
	passed  bool          // more was read than is kept: no new readers
	newest  *streamReader // the only one that may read on then
	done    bool          // no more readers will come
	closed  bool          // the source is closed
	aborted bool
}

func newStream(body io.ReadCloser, length, limit int64) *stream {
	if length > limit {
		limit = 0 // it will not fit, and a part is useless
	}
	return &stream{source: body, limit: limit, pull: make(chan struct{}, 1)}
}

// whole reports whether a new reader would see all of the body.
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

// end closes the source as soon as the newest reader is closed, or now if abort.
func (s *stream) end(abort bool) {
	s.mu.Lock()
	s.done, s.aborted = true, s.aborted || abort
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

// fromKeptLocked reads the kept bytes; ok is false if the source must be read.
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
		return 0, true, errStale // before the error of the source, since r has not seen all
	case s.err != nil:
		return 0, true, s.err
	}
	return 0, len(p) == 0, nil
}

// staleLocked reports whether a read by r would take bytes from the newest reader.
func (r *streamReader) staleLocked() bool {
	return (r.stream.passed || r.stream.limit == 0) && r.stream.newest != r
}

// fromSource reads the source and keeps the bytes within the limit, unless another reader
// has read meanwhile, or a new one came. r has pull.
func (r *streamReader) fromSource(p []byte) (int, error) {
	s := r.stream
	s.mu.Lock()
	if n, ok, err := r.fromKeptLocked(p); ok {
		s.mu.Unlock()
		return n, err
	}
	before := s.passed
	if s.limit == 0 {
		s.passed = true // during the read, a new reader might not see all
	}
	keep := !s.passed
	if keep { // one byte above the limit shows that it is passed, and is kept
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
		s.passed = before // nothing was read: the body may be empty
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
