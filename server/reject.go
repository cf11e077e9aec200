package server

import (
	"cmp"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/rejected"
	"github.com/gresil/gresil/internal/unread"
)

// A Rejection is the response to a request that is not served. The zero value is
// a 503 without details.
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
	// Detail is about this one problem, for people. It is sent unchanged, so it
	// must have no internals of the server. It may be empty.
	Detail string
	// Policies are the names of the limits that were violated, sent as the member
	// violated-policies. It may be empty.
	Policies []string
	// Err is the reason, for outer plugins (see [MarkRejected]) and for RetryAfter;
	// its text is not sent. If nil, it is [core.ErrRejected].
	Err error
	// Unmarked leaves out the mark, for a plugin that answers for a handler that
	// was called.
	Unmarked bool
}

// Reject answers a request that is not served, and marks it as rejected for the outer
// plugins unless it is Unmarked. A limiter then refunds the request, so a rejection that
// must stay charged, as of a wrong password, is Unmarked. The body is problem details in
// JSON (RFC 9457), or plain text if the client prefers that by its Accept, or accepts no
// JSON. Caches do not store it. A HEAD gets no body. If the response has begun, as a
// [Recorder] around w has seen, Reject does nothing.
//
// The response does not wait for the body of the request, as net/http would. A body of up to
// 256 KiB that has arrived, or arrives within a few milliseconds, is read, and the connection
// is kept. Otherwise the response closes the connection, and the context of the request can
// end. Over HTTP/2 only the stream is closed.
//
// The status must be one that http.ResponseWriter accepts.
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
	rej.complete()
	if n := rejected.Of(r.Context()); n != nil && !rej.Unmarked {
		n.Err, n.Status = rej.Err, rej.Status
	}
	wait := rej.RetryAfter
	if wait == 0 {
		var asked bool
		if wait, asked = core.RetryAfter(rej.Err); !asked {
			wait = -1
		}
	}
	switch begin(w, r, rej.Status, wait) { // an error of Write has no receiver: the client went away
	case asText:
		_, _ = w.Write(rej.text())
	case asJSON:
		_, _ = w.Write(rej.json())
	case noBody:
	}
}

// complete sets the defaults of the fields that the body has.
func (rej *Rejection) complete() {
	if rej.Status == 0 {
		rej.Status = http.StatusServiceUnavailable
	}
	if rej.Title == "" {
		rej.Title = http.StatusText(rej.Status)
	}
}

// A format is the form of a body.
type format uint8

const (
	noBody format = iota
	asText
	asJSON
)

// begin sends the header of a rejection and returns the format of its body.
func begin(w http.ResponseWriter, r *http.Request, status int, wait time.Duration) format {
	unread.Release(w, r)
	h := w.Header()
	for _, field := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, field) // it was for another content
	}
	body, lines := asJSON, &[3]string{"no-store", "application/problem+json"} // in one allocation
	if prefersText(r.Header["Accept"]) {
		body, lines[1] = asText, "text/plain; charset=utf-8"
	}
	h["Cache-Control"], h["Content-Type"] = lines[:1:1], lines[1:2:2]
	if wait < 0 {
		delete(h, "Retry-After")
	} else {
		lines[2] = header.RetryAfter(wait)
		h["Retry-After"] = lines[2:]
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return noBody
	}
	return body
}

// MarkRejected marks the request as refused with err in every [Recorder] around w: an
// outer limiter then refunds its charge, and a breaker does not count the response.
// [Reject] does this; a plugin that writes its own response does it first. It returns
// false, and marks nothing, if a response has begun: then the handler was called.
//
// The Recorders are found through Unwrap. A middleware in between whose writer has no
// Unwrap hides the outer ones: they count the response as that of the handler.
func MarkRejected(w http.ResponseWriter, err error) bool {
	if wrote(w) {
		return false
	}
	for rec := range recorders(w) {
		rec.rejected = err
	}
	return true
}

// wrote reports whether the response has begun, as a Recorder around w has seen.
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

func (rej *Rejection) text() []byte {
	text := rej.Title
	if rej.Detail != "" {
		text += ": " + rej.Detail
	}
	return []byte(text + "\n")
}

// json returns the body that encoding/json would write, with one allocation.
func (rej *Rejection) json() []byte {
	const members = `{"type":,"title":,"status":000,"detail":,"violated-policies":[]}` + `"about:blank"` + `""""""`
	size := len(members) + len(rej.Type) + len(rej.Title) + len(rej.Detail)
	for _, name := range rej.Policies {
		size += len(name) + len(`"",`)
	}
	b := append(make([]byte, 0, size), `{"type":`...)
	b = appendString(b, cmp.Or(rej.Type, "about:blank"))
	if rej.Title != "" {
		b = appendString(append(b, `,"title":`...), rej.Title)
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(rej.Status), 10)
	if rej.Detail != "" {
		b = appendString(append(b, `,"detail":`...), rej.Detail)
	}
	for i, name := range rej.Policies {
		if i == 0 {
			b = append(b, `,"violated-policies":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	if len(rej.Policies) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendString appends s as a string of JSON.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string: it cannot fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
