// Package request has code that the client side plugins share: the end of a request by
// its Cancel channel, the mark of a rejection, and the request of a response.
package request

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Context returns the context of req, which also ends when req.Cancel is closed.
// http.Client.Timeout sets that channel for every RoundTripper that it does not know.
// The caller must call [Release] when it does not wait for the context any more.
func Context(req *http.Request) context.Context {
	if req.Cancel == nil { //nolint:staticcheck // deprecated, and still in use
		return req.Context()
	}
	return &cancelable{Context: req.Context(), cancel: req.Cancel} //nolint:staticcheck // likewise
}

// Release ends the goroutine of a context that [Context] returned, if it has one.
func Release(ctx context.Context) {
	if c, ok := ctx.(*cancelable); ok {
		c.release()
	}
}

// Canceled reports whether the caller closed the Cancel channel, which predates contexts.
func Canceled(req *http.Request) bool {
	select {
	case <-req.Cancel: //nolint:staticcheck // net/http respects it
		return true
	default:
		return false
	}
}

// A cancelable context has no cause of its own: context.Cause returns its Err. It
// starts a goroutine only when its Done is needed.
type cancelable struct {
	context.Context //nolint:containedctx // the parent
	cancel          <-chan struct{}

	mu   sync.Mutex
	done chan struct{} // nil until Done
	stop chan struct{} // of the goroutine, nil while there is none
	over bool          // released
}

// Err reports the end of the parent first. http.Client closes Cancel at its Timeout,
// which may be a moment before the timer of the parent's deadline.
func (c *cancelable) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	select {
	case <-c.cancel:
	default:
		return nil
	}
	if deadline, ok := c.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Done starts the goroutine, unless c is released.
func (c *cancelable) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		switch {
		case c.Err() != nil:
			close(c.done)
		case !c.over:
			c.stop = make(chan struct{})
			go c.watch(c.done, c.stop)
		}
	}
	return c.done
}

func (c *cancelable) watch(done, stop chan struct{}) {
	select {
	case <-c.cancel:
		close(done)
	case <-c.Context.Done():
		close(done)
	case <-stop:
	}
}

func (c *cancelable) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil && !c.over {
		close(c.stop)
	}
	c.over = true
}
