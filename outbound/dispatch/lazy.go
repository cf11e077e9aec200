package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lazy is a context that can be canceled. It is made only if something waits for it or
// looks up a value, which a call without contention does not.
type lazy struct {
	parent context.Context //nolint:containedctx // the caller's

	state atomic.Uint32
	mu    sync.Mutex
	made  context.Context //nolint:containedctx // if the state is made
	stop  context.CancelCauseFunc
}

const (
	unmade = iota
	made
	over // ended, and not made
)

// context returns the context, and makes it if there is none.
func (l *lazy) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made, l.stop = context.WithCancelCause(l.parent)
		if l.state.Swap(made) == over {
			l.stop(nil)
		}
	}
	return l.made
}

// cancel ends the context with a cause.
func (l *lazy) cancel(cause error) {
	l.context()
	l.stop(cause)
}

// release ends the context. If nothing has needed it, it is not made.
func (l *lazy) release() {
	if !l.state.CompareAndSwap(unmade, over) {
		l.cancel(nil)
	}
}

// Deadline returns the deadline of the caller.
func (l *lazy) Deadline() (time.Time, bool) { return l.parent.Deadline() }

// Done returns the channel of the context.
func (l *lazy) Done() <-chan struct{} { return l.context().Done() }

// Value returns a value of the caller's context.
func (l *lazy) Value(key any) any { return l.context().Value(key) }

// Err returns the error of the context.
func (l *lazy) Err() error {
	if l.state.Load() == unmade {
		return l.parent.Err()
	}
	return l.context().Err()
}
