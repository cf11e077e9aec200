// Package hook guards the calls of users' hooks.
package hook

import (
	"context"
	"sync/atomic"
)

// Panics counts the panics of hooks. The zero value is ready to use.
type Panics struct{ count atomic.Uint64 }

// Recover ends a panic of the function that defers it: defer p.Recover().
func (p *Panics) Recover() {
	if v := recover(); v != nil {
		p.count.Add(1)
	}
}

// Apart calls f in a goroutine of its own, and waits for it: a hook that calls [runtime.Goexit]
// does not end the work of its caller.
func (p *Panics) Apart(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer p.Recover()
		f()
	}()
	<-ended
}

// Count is the number of panics so far.
func (p *Panics) Count() uint64 { return p.count.Load() }

// Join returns a hook that calls first and then second, which is called even when
// the first one panics. Where one is nil it is the other.
func Join[I any](first, second func(context.Context, I)) func(context.Context, I) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, info I) {
		defer second(ctx, info)
		first(ctx, info)
	}
}
