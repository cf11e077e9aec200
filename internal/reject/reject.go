// Package reject answers the requests that plugins do not serve: with problem details (RFC 9457), or plain text. Outer handlers can
// know of it.
package reject

import (
	"errors"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
)

// A Func answers a request. R is server.Rejection, which this package does not import.
type Func[R error] func(w http.ResponseWriter, r *http.Request, rej R)

// With answers a request by onRejected or, if that is nil or writes nothing, by fallback, which is server.Reject. Retry-After is
// set before. If a Recorder further out has seen the response begin, it does nothing.
func With[R error](w http.ResponseWriter, r *http.Request, rej R, retryAfter time.Duration, onRejected, fallback Func[R]) {
	if Wrote(w) {
		return
	}
	if onRejected != nil {
		why := func() error { return errors.Unwrap(rej) }
		if errors.Is(rej, core.ErrRejected) { // as server.Reject does
			Mark(w, why)
		}
		outer, rec := w, new(Recorder)
		w = rec.Wrap(w) // to see whether it writes
		rec.Observe(unread{outer, r})
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Del("Retry-After")
		if wait := Wait(retryAfter, rej); wait >= 0 {
			h.Set("Retry-After", retryAfterText(wait))
		}
		onRejected(w, r, rej)
		if rec.Wrote() && errors.Is(rej, core.ErrRejected) {
			note(r, rec.Status(), why)
		}
	}
	fallback(w, r, rej) // it does nothing if onRejected has answered
}

// unread is a request whose body may be unread when it is answered.
type unread struct {
	w http.ResponseWriter
	r *http.Request
}

// OnHeader prepares the connection, unless it was taken over.
func (u unread) OnHeader(status int) {
	if status != 0 {
		release(u.w, u.r, status)
	}
}
