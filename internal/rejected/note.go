// Package rejected lets an outer handler know that an inner one has rejected its request.
package rejected

import (
	"context"
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

// Of returns the Note of the handler that watches ctx, or nil.
func Of(ctx context.Context) *Note {
	n, _ := ctx.Value(key{}).(*Note)
	return n
}

// Tell notes a rejection.
func (n *Note) Tell(err error, status int) { n.last.Store(&Rejection{err, status}) }

// Get returns the last rejection, or the zero Rejection.
func (n *Note) Get() Rejection {
	if r := n.last.Load(); r != nil {
		return *r
	}
	return Rejection{}
}
