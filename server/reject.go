package server

import (
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
)

// A Rejection is the response to a request that is not served. The zero value is
// a 503 that says no more.
type Rejection struct {
	// Status is the status. If zero, it is 503.
	Status int
	// RetryAfter is how long the client should wait, sent in seconds, rounded up
	// and at least 1. If zero, it is what Err asks for ([core.RetryAfter]). If
	// that is nothing, or if negative, waiting does not help and none is sent.
	RetryAfter time.Duration
	// Type is a URI that names the kind of problem. If empty, it is about:blank.
	Type string
	// Title is the same for every problem of a type. If empty, it is the text of
	// the status.
	Title string
	// Detail is about this one problem, for people. It is sent as it is: nothing
	// of the inside of the server belongs into it. It may be empty.
	Detail string
	// Policies are the names of the limits that were violated, sent as the member
	// violated-policies. It may be empty.
	Policies []string
	// Err is why, for plugins further out (see [MarkRejected]) and for RetryAfter;
	// its text is not sent. If nil, it is [core.ErrRejected].
	Err error
	// Unmarked leaves out the mark, for a plugin that answers for a handler that
	// was called.
	Unmarked bool
}

// Reject answers a request that is not served, and marks it as rejected for the
// plugins further out unless it is Unmarked: a limiter then gives back what the request
// took, so an answer that is to be paid for, as to a wrong password, is Unmarked. The body is problem details in JSON (RFC 9457), or plain
// text if the client prefers that by its Accept, or takes no JSON; it is never
// to be stored. A HEAD gets no body. Where a [Recorder] around w has seen a header
// go out, the handler has begun to answer, and Reject does nothing.
//
// The status has to be one that http.ResponseWriter takes.
func Reject(w http.ResponseWriter, r *http.Request, rej Rejection) {
	if rej.Err == nil {
		rej.Err = core.ErrRejected
	}
	if wrote(w) {
		return
	}
	if !rej.Unmarked {
		MarkRejected(w, rej.Err)
	}
	if rej.Status == 0 {
		rej.Status = http.StatusServiceUnavailable
	}
	wait := rej.RetryAfter
	if wait == 0 {
		var asked bool
		if wait, asked = core.RetryAfter(rej.Err); !asked {
			wait = -1
		}
	}
	if rej.Title == "" {
		rej.Title = http.StatusText(rej.Status)
	}
	h := w.Header()
	for _, field := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, field) // it was for another content
	}
	SetRetryAfter(h, wait)
	h["Cache-Control"] = []string{"no-store"}
	var body []byte
	if prefersText(r.Header["Accept"]) {
		h["Content-Type"] = []string{"text/plain; charset=utf-8"}
		body = rej.text()
	} else {
		h["Content-Type"] = []string{"application/problem+json"}
		body = rej.json()
	}
	w.WriteHeader(rej.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client went away; there is no one to tell
	}
}

// MarkRejected tells every [Recorder] around w that the request is refused with
// err, so that the plugins further out can take it for what it is: a limiter
// gives its charge back, a breaker does not count it. [Reject] does this; a
// plugin that answers by itself does it first. It is false, and marks nothing,
// when one of them has seen a header go out: then the handler was called.
//
// The Recorders are found through Unwrap. A middleware in between whose writer has
// none hides those further out: they take the response for the handler's own.
func MarkRejected(w http.ResponseWriter, err error) bool {
	if wrote(w) {
		return false
	}
	for rec := range recorders(w) {
		rec.rejected = err
	}
	return true
}

// wrote tells whether a Recorder around w has seen a header go out.
func wrote(w http.ResponseWriter) bool {
	for rec := range recorders(w) {
		if rec.Wrote() {
			return true
		}
	}
	return false
}

// recorders calls yield for every Recorder around w, the innermost first.
func recorders(w http.ResponseWriter) iter.Seq[*Recorder] {
	return func(yield func(*Recorder) bool) {
		for w != nil {
			if r, ok := w.(interface{ recorder() *Recorder }); ok && !yield(r.recorder()) {
				return
			}
			u, ok := w.(interface{ Unwrap() http.ResponseWriter })
			if !ok {
				return
			}
			w = u.Unwrap()
		}
	}
}

func (rej Rejection) text() []byte {
	text := rej.Title
	if rej.Detail != "" {
		text += ": " + rej.Detail
	}
	return []byte(text + "\n")
}

func (rej Rejection) json() []byte {
	if rej.Type == "" {
		rej.Type = "about:blank"
	}
	body, _ := json.Marshal(struct { // strings and an int: it cannot fail
		Type     string   `json:"type"`
		Title    string   `json:"title,omitempty"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail,omitempty"`
		Policies []string `json:"violated-policies,omitempty"`
	}{rej.Type, rej.Title, rej.Status, rej.Detail, rej.Policies})
	return body
}
