package reject

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
)

// A Recorder observes the response of a handler for the plugin around it, through the writer that [Recorder.Wrap]
// returns: which status was sent, and whether an inner plugin has rejected the request. Like that writer, it belongs to the
// goroutine of the handler.
//
// Calls on the writer of an inner middleware reach the Recorder if that writer passes
// them on. A mark of [Mark] reaches it only if that writer has Unwrap.
type Recorder struct {
	w        http.ResponseWriter
	observer interface{ OnHeader(status int) } // may be nil
	rejected error
	status   int16
	hijacked bool
}

// Wrap returns a writer that passes everything on to w, and that rec observes from now on.
// The previous state of rec is lost. The writer has Flush and Hijack exactly when
// [http.ResponseController] finds them in w, itself or through Unwrap. It has ReadFrom if w
// has it, as the writer of HTTP/1 has together with the other two. A ResponseController
// reaches the other methods of w through Unwrap.
//
// A type assertion to a type of net/http itself fails: [http.MaxBytesReader] still limits
// the body, but cannot close the connection at once.
func (rec *Recorder) Wrap(w http.ResponseWriter) http.ResponseWriter {
	*rec = Recorder{w: w}
	return rec.writer()
}

// Status is the status that was sent, or will be if the handler returns now: 200 if it
// sent nothing, and 0 if it took over the connection and nothing was sent before. Of the
// informational ones only 101 is final; the others are passed on and not kept.
func (rec *Recorder) Status() int {
	if rec.status == 0 && !rec.hijacked {
		return http.StatusOK
	}
	return int(rec.status)
}

// Wrote reports whether it is too late to send another response: the final header
// was sent, or the connection taken over.
func (rec *Recorder) Wrote() bool { return rec.status != 0 || rec.hijacked }

// Rejected returns the error of an inner plugin that refused the request, so that the
// handler was not called, or nil. See [Mark].
func (rec *Recorder) Rejected() error { return rec.rejected }

// Observe has o.OnHeader called, once, when it is too late to send another response: with the status, just before the final header is
// passed on, or with 0, right after the connection was taken over. An upgrade that is announced by WriteHeader has 101, and no call for
// the Hijack that follows. Status and Rejected are up to date by then, so it knows of a request that [Mark] was called for. Where
// the handler returns without having sent anything there is no call.
//
// Changes of o to Header are sent, except after a Hijack: then they reach only a handler that sends Header itself, as
// [net/http/httputil.ReverseProxy] does for an upgrade. With several Recorders around each other the innermost is called first.
//
// Call it before the handler runs. OnHeader is called by the goroutine that sends, and must use only Header of the writer.
func (rec *Recorder) Observe(o interface{ OnHeader(status int) }) { rec.observer = o }

// Observed reports whether is says so of the observer of w, or of a writer that w wraps, or one behind a [Buffered] of ctx.
func Observed(ctx context.Context, w http.ResponseWriter, is func(observer any) bool) bool {
	for rec := range recorders(w) {
		if is(rec.observer) {
			return true
		}
	}
	outer, _ := ctx.Value(buffered{}).(func(func(any) bool) bool)
	return outer != nil && outer(is)
}

type buffered struct{}

// Buffered returns the context of a handler whose writer has no Unwrap to w, as in a http.TimeoutHandler.
func Buffered(ctx context.Context, w http.ResponseWriter) context.Context {
	return context.WithValue(ctx, buffered{}, func(is func(any) bool) bool { return Observed(ctx, w, is) })
}

// Header returns the header of the writer below.
func (rec *Recorder) Header() http.Header { return rec.w.Header() }

// A writer is the ResponseWriter of a Recorder.
type writer struct{ *Recorder }

// WriteHeader passes the status on and keeps the first that is final.
func (rec writer) WriteHeader(status int) {
	if status >= http.StatusOK && status <= 999 || status == http.StatusSwitchingProtocols {
		rec.sent(status)
	}
	rec.w.WriteHeader(status) // which panics where the status is none
}

// Write passes p on.
func (rec writer) Write(p []byte) (int, error) {
	rec.sent(http.StatusOK)
	return rec.w.Write(p)
}

// WriteString passes s on, without a copy where the writer below needs none.
func (rec writer) WriteString(s string) (int, error) {
	rec.sent(http.StatusOK)
	return io.WriteString(rec.w, s)
}

// Unwrap returns the writer below, for [http.ResponseController].
func (rec *Recorder) Unwrap() http.ResponseWriter { return rec.w }

func (rec *Recorder) recorder() *Recorder { return rec }

// sent notes that the final header is sent or, without a status, that the connection was taken over. Only the first counts.
func (rec *Recorder) sent(status int) {
	if rec.Wrote() {
		return
	}
	rec.status, rec.hijacked = int16(status), status == 0
	if rec.observer != nil {
		rec.observer.OnHeader(status)
	}
}

func (rec *Recorder) flush() error {
	rec.sent(http.StatusOK)
	return http.NewResponseController(rec.w).Flush()
}

func (rec *Recorder) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(rec.w).Hijack()
	if err == nil {
		rec.sent(0)
	}
	return conn, rw, err
}

// readFrom marks the header as sent only when something was read: until then the
// writer below sends none, and the handler can still answer with an error.
//
// OnHeader must not wait for the end of a download, so the first bytes are then written
// separately, as net/http does too.
func (rec *Recorder) readFrom(r io.Reader) (int64, error) {
	var first int64
	if rec.observer != nil && !rec.Wrote() {
		var err error
		if first, err = io.Copy(onlyWriter{writer{rec}}, io.LimitReader(r, firstBytes)); err != nil || first < firstBytes {
			return first, err
		}
	}
	n, err := rec.w.(io.ReaderFrom).ReadFrom(r)
	if n > 0 {
		rec.sent(http.StatusOK)
	}
	return first + n, err
}

const firstBytes = 512 // what net/http looks at for a Content-Type

type onlyWriter struct{ io.Writer } // hides ReadFrom
