package client

import (
	"io"
	"sync"
	"sync/atomic"
)

// A watch observes how a transport reads the body of one attempt, which it may go on
// doing after RoundTrip has returned. A nil watch has seen nothing.
type watch struct {
	length  int64                 // of the body according to its request; 0 or less if it is unknown
	attempt *watch                // of the attempt's first body; nil if there can be no other one
	newest  atomic.Pointer[watch] // in attempt: that of the body whose first Read was the last

	mu      sync.Mutex
	read    int64
	started bool
	closed  bool
	ended   bool // a Read has returned an error, io.EOF too
	failure bool // a Read failed before the body was closed
}

// watchOf returns the watch of a body that a Replay made, or nil. A transport may send
// other bodies of the same attempt after it: then it is the watch of the newest that was
// read.
func watchOf(body io.ReadCloser) *watch {
	switch b := body.(type) {
	case *onceClose:
		if newest := b.watch.newest.Load(); newest != nil {
			return newest
		}
		return &b.watch
	case *streamReader:
		return &b.watch
	case *trailedBody:
		return watchOf(b.ReadCloser)
	}
	return nil
}

func (w *watch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started && w.attempt != nil {
		w.attempt.newest.Store(w)
	}
	w.started = true
}

func (w *watch) end(n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read += int64(n)
	if err != nil && !w.closed {
		w.ended, w.failure = true, err != io.EOF //nolint:errorlint // as io.Reader has it
	}
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// faults reports whether the body was longer or shorter than its length, whether a Read
// failed, and whether it is, or was, not read to its end.
func (w *watch) faults() (wrongLength, failed, unfinished bool) {
	if w == nil {
		return false, false, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wrongLength = w.length > 0 && (w.read > w.length || w.ended && !w.failure && w.read < w.length)
	return wrongLength, w.failure, w.started && !w.ended
}
