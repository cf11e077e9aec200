package redisstore

import (
	"context"
	"sync"
	"time"
)

// A within is a context that ends at a time. It has no timer until somebody waits for that: a timer for each decision costs as much as
// all else that a decision does in this process.
type within struct {
	context.Context //nolint:containedctx // it is a context

	at    time.Time
	mu    sync.Mutex
	done  chan struct{}
	look  bool        // the next Done is no reason for a timer
	over  bool        // done is closed
	timer *time.Timer // nil before somebody waits
	leave func() bool // stops waiting for the end of the other context
}

// newWithin returns a context that ends after a time, or with ctx. Its end must be called.
func newWithin(ctx context.Context, timeout time.Duration) *within {
	w := &within{Context: ctx, at: time.Now().Add(timeout)}
	if at, ok := ctx.Deadline(); ok && at.Before(w.at) {
		w.at = at
	}
	return w
}

// Deadline returns the end.
func (w *within) Deadline() (time.Time, bool) { return w.at, true }

// looks is called before commands are sent: a client without hooks asks for Done first to see whether the context has ended, and again if
// it has to wait for a connection. Requests on a connection have the deadline.
func (w *within) looks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look = true
}

// Done returns a channel that is closed at the end; without a timer, if it is the first use after looks.
func (w *within) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		w.done = make(chan struct{})
	}
	if w.look {
		w.look = false
	} else if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(w.at), w.expire)
		if w.Context.Done() != nil {
			w.leave = context.AfterFunc(w.Context, w.expire)
		}
	}
	return w.done
}

func (w *within) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.over = true
		close(w.done)
	}
}

// Err returns why the context has ended.
func (w *within) Err() error {
	if err := w.Context.Err(); err != nil {
		return err
	} else if !time.Now().Before(w.at) {
		return context.DeadlineExceeded
	}
	return nil
}

// end stops the timer: from then on, nobody may wait.
func (w *within) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.leave != nil {
		w.leave()
	}
}
