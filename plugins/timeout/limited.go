package timeout

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A limited context ends at a limit, as one of context.WithTimeoutCause does,
// but the limit can be lifted, and the context then lives on.
//
// Derived contexts must end with its Err, but package context cannot end a context with
// DeadlineExceeded on demand. So it has its own Done and AfterFunc, from which package
// context takes Err and cause (https://go.dev/issue/28728). A context that is derived
// through a foreign type or a context.WithValue costs a goroutine while both live.
type limited struct {
	context.Context //nolint:containedctx // the parent: this one ends when it does

	cause    *Error
	deadline time.Time // zero if the limit of cause does not apply
	state    atomic.Int32
	unwatch  func() bool // the parent

	mu    sync.Mutex
	done  chan struct{}   // nil until Done is called
	err   error           // not nil: it has ended
	over  context.Context //nolint:containedctx // the parent; after the limit, a context with its cause
	funcs []*func()       // to call at the end
}

// The states of a limit. It is lifted or strikes, never both.
const (
	holds = iota
	lifted
	struck
)

// start makes l a child of parent, with a limit from now on; it must then be expired or
// released.
func (l *limited) start(parent context.Context, cause *Error, now time.Time) {
	l.Context, l.over, l.cause, l.deadline = parent, parent, cause, now.Add(cause.Limit)
	l.unwatch = context.AfterFunc(parent, l.follow)
}

// expire makes a limit strike, and reports whether it did. If other is not nil, it is the
// error of a limit in addition to that of l.
func (l *limited) expire(other *Error) bool {
	l.mu.Lock()
	first := l.state.CompareAndSwap(holds, struck)
	if first && other != nil {
		l.cause = other
	}
	cause := l.cause
	l.mu.Unlock()
	if first {
		l.strike(cause)
	}
	return first
}

// lift lifts the limit, and reports whether it has not struck. If it has, the
// context has ended when lift returns.
func (l *limited) lift() bool {
	if l.state.CompareAndSwap(holds, lifted) || l.state.Load() == lifted {
		return true
	}
	l.mu.Lock()
	cause := l.cause
	l.mu.Unlock()
	l.strike(cause) // expire may be about to
	return false
}

// strike ends the context with a limit as cause. context.Cause finds it in a context
// whose deadline has passed.
func (l *limited) strike(cause *Error) {
	over, cancel := context.WithDeadlineCause(l.Context, time.Time{}, cause)
	cancel() // it has ended already
	l.finish(over, over.Err())
	l.unwatch()
}

// release ends the context after its exchange.
func (l *limited) release() {
	l.unwatch()
	l.follow()
	l.finish(l.Context, context.Canceled)
}

// follow ends the context if the parent has ended.
func (l *limited) follow() {
	if err := l.Context.Err(); err != nil {
		l.finish(l.Context, err)
	}
}

// finish ends the context, once.
func (l *limited) finish(over context.Context, err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err, l.over = err, over
	if l.done != nil {
		close(l.done)
	}
	funcs := l.funcs
	l.funcs = nil
	l.mu.Unlock()
	for _, f := range funcs { // each takes the lock of a context
		(*f)()
	}
}

// Deadline returns the time of the limit until it is lifted, or the parent's.
func (l *limited) Deadline() (time.Time, bool) {
	outer, ok := l.Context.Deadline()
	if l.state.Load() == lifted || l.deadline.IsZero() || ok && outer.Before(l.deadline) {
		return outer, ok
	}
	return l.deadline, true
}

// Done is not the parent's: see limited.
func (l *limited) Done() <-chan struct{} {
	l.follow()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is that of any context, and context.DeadlineExceeded when the limit struck.
func (l *limited) Err() error {
	l.follow()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Value returns the parent's, and after the limit its cause for context.Cause.
func (l *limited) Value(key any) any {
	if key == (limitedKey{}) {
		return l
	}
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	return over.Value(key)
}

// AfterFunc calls f at the end unless stop is called before. Package context calls it
// with the lock that f takes, so AfterFunc itself never calls f.
func (l *limited) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		go f()
		return func() bool { return false }
	}
	l.funcs = append(l.funcs, &f)
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.Index(l.funcs, &f)
		if i >= 0 {
			l.funcs = slices.Delete(l.funcs, i, i+1)
		}
		return i >= 0
	}
}

type limitedKey struct{} // finds the innermost limited context
