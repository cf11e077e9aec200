package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A Recorder sees what a handler sends. It is made by [Record]. Like the writer
// it is made for, it belongs to the goroutine of the handler.
type Recorder struct {
	w        http.ResponseWriter
	rejected error
	bytes    int64
	status   int16
	hijacked bool
}

// Record returns a writer that passes everything on to w, and the Recorder that
// sees it. The writer has Flush, Hijack, ReadFrom and Push exactly when w has
// them, so a handler that asks for one gets the answer that w would give.
// FlushError comes with Flush. All else that w can do is reached by
// [http.ResponseController], through Unwrap.
func Record(w http.ResponseWriter) (http.ResponseWriter, *Recorder) {
	rec := new(Recorder)
	return rec.Wrap(w), rec
}

// Wrap is [Record] with a Recorder that is part of something else, so that it
// costs no allocation of its own. What rec has seen before is forgotten.
func (rec *Recorder) Wrap(w http.ResponseWriter) http.ResponseWriter {
	*rec = Recorder{w: w}
	return rec.writer()
}

// Status is the status that was sent, or 0 as long as there is none. Of the
// informational ones only 101 is final; the others are passed on and not kept.
func (rec *Recorder) Status() int { return int(rec.status) }

// Final is what Status will be if the handler returns now: 200 when it sent
// nothing, and 0 when it took over the connection and nothing was sent before.
func (rec *Recorder) Final() int {
	if rec.status == 0 && !rec.hijacked {
		return http.StatusOK
	}
	return int(rec.status)
}

// Bytes is how much of a body the writer below has accepted.
func (rec *Recorder) Bytes() int64 { return rec.bytes }

// Wrote tells whether it is too late to send another response: the final header
// was sent, or the connection taken over.
func (rec *Recorder) Wrote() bool { return rec.status != 0 || rec.hijacked }

// Hijacked tells whether the handler took over the connection.
func (rec *Recorder) Hijacked() bool { return rec.hijacked }

// Rejected is the error of a plugin further in that refused the request, so that
// the handler was not called, or nil. See [MarkRejected].
func (rec *Recorder) Rejected() error { return rec.rejected }

// Header returns the header of the writer below.
func (rec *Recorder) Header() http.Header { return rec.w.Header() }

// WriteHeader passes the status on and keeps the first that is final.
func (rec *Recorder) WriteHeader(status int) {
	rec.w.WriteHeader(status)
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		rec.sent(status)
	}
}

// Write passes p on.
func (rec *Recorder) Write(p []byte) (int, error) {
	rec.sent(http.StatusOK)
	n, err := rec.w.Write(p)
	rec.bytes += int64(n)
	return n, err
}

// WriteString passes s on, without a copy where the writer below needs none.
func (rec *Recorder) WriteString(s string) (int, error) {
	rec.sent(http.StatusOK)
	n, err := io.WriteString(rec.w, s)
	rec.bytes += int64(n)
	return n, err
}

// Unwrap returns the writer below, for [http.ResponseController].
func (rec *Recorder) Unwrap() http.ResponseWriter { return rec.w }

func (rec *Recorder) recorder() *Recorder { return rec }

func (rec *Recorder) sent(status int) {
	if !rec.Wrote() {
		rec.status = int16(status) // three digits, else the writer below panics
	}
}

func (rec *Recorder) flush() error {
	rec.sent(http.StatusOK)
	if f, ok := rec.w.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	rec.w.(http.Flusher).Flush()
	return nil
}

func (rec *Recorder) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := rec.w.(http.Hijacker).Hijack()
	rec.hijacked = rec.hijacked || err == nil
	return conn, rw, err
}

// readFrom marks the header as sent only when something was read: until then the
// writer below sends none, and the handler can still answer with an error.
func (rec *Recorder) readFrom(r io.Reader) (int64, error) {
	n, err := rec.w.(io.ReaderFrom).ReadFrom(r)
	if n > 0 {
		rec.sent(http.StatusOK)
	}
	rec.bytes += n
	return n, err
}

func (rec *Recorder) push(target string, opts *http.PushOptions) error {
	return rec.w.(http.Pusher).Push(target, opts)
}
