package groups

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core/timeout"
)

// longestInside is the longest wait at the gate that begins while the function runs: for a key that only its request has, or for a
// connection. It is a part of Timeout, and at most half of it.
const longestInside = 2 * time.Second

// An Attempt calls a function of the user once, when a gate permits it.
type Attempt struct {
	Name     string // of what is called, for the error of its Timeout
	Panic    string // the text of the error of a panic
	Timeout  time.Duration
	Patience time.Duration // for which the call waits at its gate before the function is called
	// Pass calls a function when the gate permits it, and says what has become of it. It is nil if there is no gate.
	Pass func(ctx context.Context, f func(ctx context.Context) error) error

	Called bool          // the function was
	Err    error         // of the function
	Took   time.Duration // by the function
}

// Make makes the attempt. The function's context ends with ctx, with working and after Timeout; the wait at the gate also ends with
// stopping.
func (a *Attempt) Make(ctx, stopping, working context.Context, f func(ctx context.Context) error) (err error) {
	defer a.caught(&err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(working, cancel)()
	if a.Pass == nil {
		return a.call(ctx, f)
	}
	wait := &waiting{Context: ctx, inside: min(longestInside, a.Timeout/2)}
	wait.until.Store(new(time.Now().Add(a.Patience)))
	stop := context.AfterFunc(stopping, cancel)
	defer stop()
	return a.Pass(wait, func(ctx context.Context) error { //nolint:contextcheck // it is that of ctx
		if !stop() { // ctx ends: the call would be cut when it is under way
			return context.Cause(stopping)
		}
		wait.until.Store(nil)
		err := a.call(undated{ctx}, f)         //nolint:contextcheck // it is ctx
		wait.until.Store(new(time.Unix(0, 0))) // a call that is refused does not wait for another one
		return err
	})
}

// waiting is the context of a call at a gate. Its deadline limits only the wait: the context does not end then.
type waiting struct {
	context.Context //nolint:containedctx // it is a context

	until  atomic.Pointer[time.Time] // nil: each wait can last as long as inside
	inside time.Duration
}

func (w *waiting) Deadline() (time.Time, bool) {
	if until := w.until.Load(); until != nil {
		return *until, true
	}
	return time.Now().Add(w.inside), true
}

// undated is a context for a function, which does not see the deadline of the wait.
type undated struct{ context.Context } //nolint:containedctx // it is a context

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

func (a *Attempt) call(ctx context.Context, f func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.Timeout, &timeout.Error{Name: a.Name, Limit: a.Timeout})
	defer cancel()
	began := time.Now()
	a.Called = true
	defer func() { a.Err, a.Took = err, time.Since(began) }()
	defer a.caught(&err)
	return f(ctx)
}

func (a *Attempt) caught(err *error) {
	if v := recover(); v != nil {
		*err = Panicked(a.Panic, v)
	}
}
