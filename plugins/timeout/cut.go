package timeout

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/gresil/gresil/internal/reject"
)

// errPanic is the error if the handler does not return.
var errPanic = errors.New("timeout: the handler panicked")

// cutText is the body that distinguishes the response of http.TimeoutHandler from that of a handler.
const cutText = "timeout: the limit is exceeded, and the handler still runs"

// cut runs h, which is a http.TimeoutHandler.
func (x *serving) cut(h http.Handler) {
	ctx := x.r.Context()
	note := reject.Watched(ctx)
	if note == nil {
		ctx, note = reject.Watch(ctx)
	}
	ctx = context.WithValue(ctx, outerHeader{}, x.w.Header().Clone())
	x.r = x.r.WithContext(reject.Buffered(ctx, x.w))
	w := &cutWriter{ResponseWriter: x.w, serving: x, note: note}
	x.run(h, w, func() {
		x.err = nil
		if w.cut || w.status != 0 { // a status without a body: the client has left
			x.err = x.ctx.Err()
		}
		w.send()
	})
}

// outerHeader is the key of the header that outer handlers have set.
type outerHeader struct{}

// buffered returns next for a http.TimeoutHandler, whose writer has an empty header, and takes an informational response for the final one.
func buffered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer, _ := r.Context().Value(outerHeader{}).(http.Header)
		maps.Copy(w.Header(), outer)
		push, _ := w.(http.Pusher)
		next.ServeHTTP(finalWriter{w, push}, r)
	})
}

// A finalWriter leaves out informational responses.
type finalWriter struct {
	http.ResponseWriter
	http.Pusher
}

func (w finalWriter) WriteHeader(status int) {
	if status/100 != 1 || status == http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(status)
	}
}

// A cutWriter replaces the response that a http.TimeoutHandler sends at the limit: a status and a text, in two calls.
type cutWriter struct {
	http.ResponseWriter
	serving *serving
	note    *reject.Note // needed because the writer of a http.TimeoutHandler does not pass on marks
	status  int          // not sent yet; 0 if there is none
	cut     bool
}

// Header is called by http.TimeoutHandler before it copies the header of the handler, which began as a copy of this one.
func (w *cutWriter) Header() http.Header {
	h := w.ResponseWriter.Header()
	clear(h) // the handler may have deleted some
	return h
}

// WriteHeader keeps a status that may come from http.TimeoutHandler until the body shows where it comes from.
func (w *cutWriter) WriteHeader(status int) {
	if status == http.StatusServiceUnavailable {
		w.status = status
		return
	}
	w.header(status)
}

// header sends the status of the handler, and passes on that an inner plugin has rejected the request.
func (w *cutWriter) header(status int) {
	if last := w.note.Get(); last.Err != nil && last.Status == status {
		reject.Mark(w.ResponseWriter, func() error { return last.Err })
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *cutWriter) Write(p []byte) (int, error) {
	if w.status != 0 && string(p) == cutText {
		w.status, w.cut = 0, true
		if r := w.serving.r; r.ContentLength > 0 {
			r.ContentLength = -1 // else the rejection reads a body of known length, which the handler may still read
		}
		w.serving.answer()
		return len(p), nil
	}
	w.send()
	return w.ResponseWriter.Write(p)
}

// send sends the status that was kept.
func (w *cutWriter) send() {
	if w.status != 0 {
		w.header(w.status)
		w.status = 0
	}
}
