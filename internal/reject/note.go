package reject

import (
	"context"
	"iter"
	"net/http"
	"sync/atomic"
)

// A Rejection is what is known of one.
type Rejection struct {
	Err    error // nil if there was none
	Status int   // 0 if it is not known
}

// A Note has the last rejection of a request. It is safe for concurrent use: a handler that was cut off can reject while the outer
// one looks.
type Note struct{ last atomic.Pointer[Rejection] }

type key struct{}

// Watch returns a context whose rejections are noted. Outer contexts of Watch do not hear of them.
func Watch(ctx context.Context) (context.Context, *Note) {
	n := &Note{}
	return context.WithValue(ctx, key{}, n), n
}

// Watched returns the Note of the handler that watches ctx, or nil.
func Watched(ctx context.Context) *Note {
	n, _ := ctx.Value(key{}).(*Note)
	return n
}

// Get returns the last rejection, or the zero Rejection.
func (n *Note) Get() Rejection {
	if r := n.last.Load(); r != nil {
		return *r
	}
	return Rejection{}
}

// Announce lets outer handlers know that a request is rejected: those with a Recorder, and the one that watches. It returns false, and
// does nothing, if the response has begun.
func Announce(w http.ResponseWriter, r *http.Request, status int, why func() error) bool {
	if !Mark(w, why) {
		return false
	}
	note(r, status, why)
	return true
}

func note(r *http.Request, status int, why func() error) {
	if n := Watched(r.Context()); n != nil {
		n.last.Store(&Rejection{why(), status})
	}
}

// Mark marks the request as refused in every [Recorder] around w: a breaker then does not count the response. why makes the error if
// there is a Recorder. Mark returns false, and marks nothing, if a response has begun: then the handler was called.
//
// The Recorders are found through Unwrap. A middleware in between whose writer has no
// Unwrap hides the outer ones: they count the response as that of the handler.
func Mark(w http.ResponseWriter, why func() error) bool {
	if Wrote(w) {
		return false
	}
	var err error
	for rec := range recorders(w) {
		if err == nil {
			err = why()
		}
		rec.rejected = err
	}
	return true
}

// Wrote reports whether the response has begun, as a Recorder around w has seen.
func Wrote(w http.ResponseWriter) bool {
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
