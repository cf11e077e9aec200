package timeout

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/recorder"
)

// A heldWriter buffers a response until it begins. The goroutine of the handler uses it.
// The goroutine of the request calls only stop, and finish after the handler has ended.
type heldWriter struct {
	w        http.ResponseWriter
	seen     *recorder.Recorder // has the mark of an inner plugin that rejected the request
	ctx      *limited
	max      int
	cutsBody bool
	header   http.Header // the handler's own

	mu       sync.Mutex // held while w is used
	status   int        // 0: none yet
	sent     http.Header
	length   int64 // of the body, by its Content-Length; negative: none
	written  int64
	buf      []byte
	begun    atomic.Bool // set with mu held
	hijacked bool
	over     bool // the handler has returned
}

var errOver = errors.New("timeout: the handler has returned")

// refusedLocked returns the reason why the writer cannot be used any more, or nil.
func (h *heldWriter) refusedLocked() error {
	switch {
	case h.struck():
		return http.ErrHandlerTimeout
	case h.hijacked:
		return http.ErrHijacked
	case h.over:
		return errOver
	}
	return nil
}

func (h *heldWriter) struck() bool { return h.ctx.state.Load() == struck }

func cloneHeader(w http.ResponseWriter) http.Header {
	if h := w.Header().Clone(); h != nil {
		return h
	}
	return http.Header{}
}

// stop waits, after the limit, until the handler no longer uses the writer below, and
// reports whether the response has begun.
func (h *heldWriter) stop() (begun bool) {
	if h.begun.Load() { // a write may wait for a slow client
		_ = http.NewResponseController(h.w).SetWriteDeadline(time.Now()) // not every writer can
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun.Load()
}

// finish sends the buffer and the trailer, if the handler has returned without a panic.
func (h *heldWriter) finish(returned bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.hijacked || !returned {
		return
	}
	if h.status == 0 { // nothing was written: an outer middleware may write
		h.mark()
		replace(h.w.Header(), h.header)
		return
	}
	if !h.begun.Load() {
		_ = h.beginLocked() // the client is gone, and has no use for the error
	}
	for k, v := range h.header {
		if strings.HasPrefix(k, http.TrailerPrefix) || declared(h.sent, k) {
			h.w.Header()[k] = v
		}
	}
}

// mark passes the mark of a rejection on, which is too late once the response has begun.
func (h *heldWriter) mark() {
	if err := h.seen.Rejected(); err != nil {
		recorder.MarkRejected(h.w, err)
	}
}

// declared reports whether the Trailer field of header names key.
func declared(header http.Header, key string) bool {
	for _, line := range header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(name)) == key {
				return true
			}
		}
	}
	return false
}

func replace(dst, src http.Header) {
	clear(dst)
	maps.Copy(dst, src)
}

func (h *heldWriter) Header() http.Header { return h.header }

func (h *heldWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("timeout: invalid status %d", status)) // as net/http does; here in the handler
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.refusedLocked() != nil:
	case status < 200 && status != http.StatusSwitchingProtocols:
		h.informLocked(status)
	default:
		h.decideLocked(status)
	}
}

// decideLocked keeps the first final status, and the header as it is now.
func (h *heldWriter) decideLocked(status int) {
	if h.status == 0 {
		h.status, h.sent, h.length = status, h.header.Clone(), -1
		if field := h.sent["Content-Length"]; len(field) > 0 { // without one, the error would cost an allocation
			if n, err := strconv.ParseInt(field[0], 10, 64); err == nil {
				h.length = n
			}
		}
	}
}

// informLocked sends an informational status at once: it is not the response.
func (h *heldWriter) informLocked(status int) {
	if h.status != 0 {
		return // too late, as with net/http
	}
	before := h.w.Header().Clone()
	replace(h.w.Header(), h.header)
	h.w.WriteHeader(status)
	replace(h.w.Header(), before)
}

func (h *heldWriter) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusedLocked(); err != nil {
		return 0, err
	}
	h.decideLocked(http.StatusOK)
	if h.written += int64(len(p)); h.length >= 0 && h.written > h.length {
		return 0, http.ErrContentLength // the writer below would refuse all that is buffered, too
	}
	if !h.begun.Load() {
		if len(h.buf)+len(p) <= h.max {
			h.buf = append(h.buf, p...)
			return len(p), nil
		}
		if err := h.beginLocked(); err != nil {
			return 0, err
		}
	}
	return h.w.Write(p)
}

// beginLocked begins the response: from now on everything is passed on.
func (h *heldWriter) beginLocked() error {
	if !h.cutsBody && !h.ctx.lift() {
		return http.ErrHandlerTimeout
	}
	h.begun.Store(true)
	if h.struck() { // stop has not seen begun, and must not wait for the write
		return http.ErrHandlerTimeout
	}
	h.mark()
	replace(h.w.Header(), h.sent)
	h.w.WriteHeader(h.status)
	buf := h.buf
	if h.buf = nil; len(buf) == 0 {
		return nil
	}
	_, err := h.w.Write(buf)
	return err
}

func (h *heldWriter) flush() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusedLocked(); err != nil {
		return err
	}
	h.decideLocked(http.StatusOK)
	if !h.begun.Load() {
		if err := h.beginLocked(); err != nil {
			return err
		}
	}
	return http.NewResponseController(h.w).Flush()
}

// hijack always lifts the limit, since the connection is then the handler's.
func (h *heldWriter) hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusedLocked(); err != nil {
		return nil, nil, err
	}
	if !h.ctx.lift() {
		return nil, nil, http.ErrHandlerTimeout
	}
	if h.status != 0 && !h.begun.Load() {
		if err := h.beginLocked(); err != nil {
			return nil, nil, err
		}
	}
	h.mark()
	before := h.w.Header().Clone()
	replace(h.w.Header(), h.header) // outer plugins change it when the connection is taken over
	conn, rw, err := h.w.(http.Hijacker).Hijack()
	if err != nil {
		replace(h.w.Header(), before)
		return nil, nil, err
	}
	h.hijacked = true
	replace(h.header, h.w.Header())
	return conn, rw, nil
}

// The methods for http.ResponseController are passed on one by one, not by an Unwrap:
// the writer below must not be used after the request.

func (h *heldWriter) SetReadDeadline(t time.Time) error {
	return h.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

func (h *heldWriter) SetWriteDeadline(t time.Time) error {
	return h.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

func (h *heldWriter) EnableFullDuplex() error {
	return h.control((*http.ResponseController).EnableFullDuplex)
}

func (h *heldWriter) control(f func(*http.ResponseController) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refusedLocked(); err != nil {
		return err
	}
	return f(http.NewResponseController(h.w))
}

// Value finds what outer plugins attached to the request. It does not use the writer
// below, so it works after the limit too.
func (h *heldWriter) Value(key any) any { return recorder.Value(h.w, key) }

// The optional interfaces that the writer below may have.
type (
	heldF  struct{ *heldWriter }
	heldH  struct{ *heldWriter }
	heldFH struct{ heldF }
)

func (h heldF) Flush()            { _ = h.flush() } // http.Flusher has no error
func (h heldF) FlushError() error { return h.flush() }

func (h heldH) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return h.hijack() }
func (h heldFH) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.hijack() }

// writer returns h with the optional methods of the writer below.
func (h *heldWriter) writer() http.ResponseWriter {
	_, flusher := h.w.(http.Flusher)
	_, hijacker := h.w.(http.Hijacker)
	switch {
	case flusher && hijacker:
		return heldFH{heldF{h}}
	case flusher:
		return heldF{h}
	case hijacker:
		return heldH{h}
	}
	return h
}
