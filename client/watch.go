package client

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A watch observes how a transport reads the body of one attempt, which it may go on
// doing after RoundTrip has returned. A nil watch has seen nothing.
type watch struct {
	length  int64                 // of the body according to its request; 0 or less if it is unknown
	attempt *watch                // of the attempt's first body; nil if there can be no other one
	newest  atomic.Pointer[watch] // in attempt: that of the body whose first Read was the last

	mu      sync.Mutex
	first   time.Time // the start of the first Read
	since   time.Time // the start of the Read that runs; zero if none does
	closed  time.Time
	waited  time.Duration // in Reads
	read    int64
	stuck   bool // it was closed while a Read ran
	ended   bool
	failure bool // a Read failed before it was closed
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
	w.since = time.Now()
	if w.first.IsZero() {
		w.first = w.since
		if w.attempt != nil {
			w.attempt.newest.Store(w)
		}
	}
}

func (w *watch) end(n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read += int64(n)
	if !w.closed.IsZero() {
		return
	}
	w.waited += time.Since(w.since)
	w.since = time.Time{}
	if err != nil {
		w.ended, w.failure = true, err != io.EOF //nolint:errorlint // as io.Reader has it
	}
}

func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed.IsZero() {
		return
	}
	w.closed = time.Now()
	if w.stuck = !w.since.IsZero(); w.stuck {
		w.waited += w.closed.Sub(w.since)
	}
}

// faults reports whether the body was longer or shorter than its length, whether a Read
// failed, and whether the transport waits for the body now, or has done so during half of
// the time or more since it began to read.
func (w *watch) faults() (wrongLength, failed, slow bool) {
	if w == nil {
		return false, false, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wrongLength = w.length > 0 && (w.read > w.length || w.ended && !w.failure && w.read < w.length)
	switch {
	case w.first.IsZero(), w.ended:
	case w.stuck, w.closed.IsZero() && !w.since.IsZero():
		slow = true
	case w.closed.IsZero():
		slow = w.waited > 0 && w.waited >= time.Since(w.first)/2
	default:
		slow = w.waited > 0 && w.waited >= w.closed.Sub(w.first)/2
	}
	return wrongLength, w.failure, slow
}
