package recorder

import (
	"iter"
	"net/http"
)

// MarkRejected marks the request as refused with err in every [Recorder] around w: an
// outer limiter then refunds its charge, and a breaker does not count the response. It returns
// false, and marks nothing, if a response has begun: then the handler was called.
//
// The Recorders are found through Unwrap. A middleware in between whose writer has no
// Unwrap hides the outer ones: they count the response as that of the handler.
func MarkRejected(w http.ResponseWriter, err error) bool {
	return Mark(w, func() error { return err })
}

// Mark is MarkRejected for an error that is made only if there is a Recorder.
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
