package reject

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/gresil/gresil/internal/recorder"
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
	if !recorder.Mark(w, why) {
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
