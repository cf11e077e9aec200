package timeout

import (
	"context"
	"sync/atomic"
	"time"
)

// A limited context ends at a limit, as one of context.WithTimeoutCause does,
// but the limit can be lifted, and the context then lives on.
type limited struct {
	context.Context //nolint:containedctx // it is a context: it ends when this one does

	end      context.CancelCauseFunc
	cause    *Error
	deadline time.Time
	state    atomic.Int32
}

// The states of a limit. It is lifted or strikes, never both.
const (
	holds = iota
	lifted
	struck
)

// start makes l a child of parent; it then has to be expired or released.
func (l *limited) start(parent context.Context, cause *Error) {
	l.Context, l.end = context.WithCancelCause(parent)
	l.cause, l.deadline = cause, time.Now().Add(cause.Limit)
}

// expire lets the limit strike, and tells whether it did.
func (l *limited) expire() bool {
	if !l.state.CompareAndSwap(holds, struck) {
		return false
	}
	l.end(l.cause)
	return true
}

// lift lifts the limit, and tells whether it has not struck. If it has, the
// context has ended when lift returns.
func (l *limited) lift() bool {
	if l.state.CompareAndSwap(holds, lifted) || l.state.Load() == lifted {
		return true
	}
	l.end(l.cause) // expire may be about to
	return false
}

// release ends the context of what is over.
func (l *limited) release() { l.end(nil) }

// Deadline returns the time of the limit, while that holds, or the parent's.
func (l *limited) Deadline() (time.Time, bool) {
	outer, ok := l.Context.Deadline()
	if l.state.Load() == lifted || ok && outer.Before(l.deadline) {
		return outer, ok
	}
	return l.deadline, true
}

// Err is that of any context, and context.DeadlineExceeded when the limit struck.
func (l *limited) Err() error {
	err := l.Context.Err()
	if err == nil {
		return nil
	}
	if cause, _ := context.Cause(l.Context).(*Error); cause == l.cause { //nolint:errorlint // the very one
		return context.DeadlineExceeded
	}
	return err
}
