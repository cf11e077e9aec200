package client

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"
)

// A watch observes how a transport reads the body of one attempt, which it may go on
// doing after RoundTrip has returned. A nil watch has seen nothing.
type watch struct {
	length int64 // of the body according to its request; 0 or less if it is unknown

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

// watchOf returns the watch of a body that a Replay made, or nil.
func watchOf(body io.ReadCloser) *watch {
	switch b := body.(type) {
	case *onceClose:
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

func (w *watch) failed() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// wrongLength reports whether the body was longer or shorter than its length.
func (w *watch) wrongLength() bool {
	if w == nil || w.length <= 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read > w.length || w.ended && !w.failure && w.read < w.length
}

// slow reports whether the transport waits for the body now, or has done so during half
// of the time or more since it began to read.
func (w *watch) slow() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.first.IsZero(), w.ended:
		return false
	case w.stuck, w.closed.IsZero() && !w.since.IsZero():
		return true
	case w.closed.IsZero():
		return w.waited > 0 && w.waited >= time.Since(w.first)/2
	}
	return w.waited > 0 && w.waited >= w.closed.Sub(w.first)/2
}

// inMemory reports whether body is one that [http.NewRequest] made of bytes or a string
// of that length: it cannot fail, and net/http knows it when it sees it.
func inMemory(body io.ReadCloser, length int64) bool {
	t := reflect.TypeOf(body)
	if t != reflect.TypeOf(io.NopCloser(nil)) && t != reflect.TypeOf(io.NopCloser((*strings.Reader)(nil))) {
		return false
	}
	switch r := reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader:
		return int64(r.Len()) == length
	case *bytes.Buffer:
		return int64(r.Len()) == length
	case *strings.Reader:
		return int64(r.Len()) == length
	}
	return false
}
