// Package rejected lets an outer handler know that an inner one has rejected its request.
package rejected

import "context"

// A Note is what is known of a rejection.
type Note struct {
	Err    error // nil if there was none
	Status int   // 0 if it is not known
}

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
